"""What an xDS test client sends: its methods, their metadata and their timeout, from flags or from a test driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeAlias

from msgspec import Struct

from trxds.core.metadata import EMPTY, Metadata, check

Pairs: TypeAlias = Sequence[tuple[str, str]]


class RpcType(IntEnum):
    """The methods that a test client calls, with the names and numbers of `ClientConfigureRequest.RpcType`."""

    EMPTY_CALL = 0
    UNARY_CALL = 1

    @property
    def method(self) -> str:
        """The name of the method of `grpc.testing.TestService`, which flags and `rpcs_by_method` use."""
        return _METHODS[self]


_METHODS = {RpcType.EMPTY_CALL: "EmptyCall", RpcType.UNARY_CALL: "UnaryCall"}
_TYPES = {method: type for type, method in _METHODS.items()}


class RpcConfig(Struct, frozen=True):
    """One of the RPCs that a client sends again and again; `timeout` is in seconds, None is no deadline."""

    type: RpcType
    metadata: Metadata = EMPTY
    timeout: float | None = None


def make_configs(types: Iterable[RpcType], metadata: Mapping[RpcType, Pairs], timeout: float) -> tuple[RpcConfig, ...]:
    """Return the RPCs of these types. `ValueError` names metadata that no header can carry."""
    return tuple(_make_config(type, metadata.get(type, ()), timeout) for type in types)


def _make_config(type: RpcType, pairs: Pairs, timeout: float) -> RpcConfig:
    # A header's name and value are both text in flags and requests. gRPC sends the value of a -bin key as base64.
    checked = check([(key, value.encode() if key.lower().endswith("-bin") else value) for key, value in pairs])
    # The test server keeps such a call open for ever, and the tests of circuit breakers count those that are open.
    is_kept_open = ("rpc-behavior", "keep-open") in checked
    return RpcConfig(type, checked, None if is_kept_open else timeout)


def parse_types(text: str) -> tuple[RpcType, ...]:
    """Return the types of `--rpc`, such as `UnaryCall,EmptyCall`; `ValueError` for another name."""
    return tuple(map(_parse_type, text.split(",")))


def _parse_type(name: str) -> RpcType:
    if name not in _TYPES:
        raise ValueError(f"{name!r} is neither EmptyCall nor UnaryCall; write one, or both with a comma between them")
    return _TYPES[name]


def parse_metadata(text: str) -> Mapping[RpcType, Pairs]:
    """Return the pairs of `--metadata`, such as `EmptyCall:key:value,UnaryCall:key:value`; `ValueError` if it is wrong.

    The value is not shown, because it may be a secret.
    """
    pairs: dict[RpcType, list[tuple[str, str]]] = {}
    for number, entry in enumerate(filter(None, text.split(",")), 1):
        parts = entry.split(":")
        if len(parts) != 3:
            form = "METHOD:KEY:VALUE, with no colon and no comma in the value"
            raise ValueError(f"entry {number} has {len(parts)} parts; write {form}")
        type, key, value = parts
        pairs.setdefault(_parse_type(type), []).append((key, value))
    return pairs


def read_request(request: Any, default_timeout: float) -> tuple[RpcConfig, ...]:
    """Return the RPCs that a `ClientConfigureRequest` asks for; `ValueError` names the field that is wrong."""
    if request.timeout_sec < 0:
        remedy = "it must be above 0, or 0 for the client's --rpc_timeout_sec"
        raise ValueError(f"timeout_sec is {request.timeout_sec}; {remedy}")
    unknown = {*request.types, *(each.type for each in request.metadata)} - set(RpcType)
    if unknown:
        raise ValueError(f"there is no RpcType {min(unknown)}; 0 is EMPTY_CALL, 1 is UNARY_CALL")
    pairs: dict[RpcType, list[tuple[str, str]]] = {}
    for each in request.metadata:
        pairs.setdefault(RpcType(each.type), []).append((each.key, each.value))
    return make_configs(map(RpcType, request.types), pairs, float(request.timeout_sec or default_timeout))
