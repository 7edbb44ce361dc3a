"""Hash policies: the parts of an RPC that are hashed for ring_hash (A42)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from msgspec import Struct

from .regex import Regex, Rewrite
from .validation_errors import ValidationErrors

_CHANNEL_ID = "io.grpc.channel_id"


class HeaderHash(Struct, frozen=True):
    """A hash of a header's value, perhaps rewritten. After a `terminal` policy with a result no later one counts."""

    header: str
    rewrite: Rewrite | None = None
    terminal: bool = False


class ChannelIdHash(Struct, frozen=True):
    """A hash that is the same for all RPCs of a channel."""

    terminal: bool = False


HashPolicy: TypeAlias = HeaderHash | ChannelIdHash


def parse_hash_policies(messages: Iterable[Any], problems: ValidationErrors) -> tuple[HashPolicy, ...]:
    """Return the supported policies in order; others, such as cookies and addresses, are ignored."""
    policies = (_hash_policy(each, problems.at(f"hash_policy[{index}]")) for index, each in enumerate(messages))
    return tuple(policy for policy in policies if policy is not None)


def _hash_policy(message: Any, problems: ValidationErrors) -> HashPolicy | None:
    match message.WhichOneof("policy_specifier"):
        case "header":
            return _header(message.header, message.terminal, problems.at("header"))
        case "filter_state" if message.filter_state.key == _CHANNEL_ID:
            return ChannelIdHash(message.terminal)
    # A42: an unknown kind yields nothing, so that newer kinds may be sent to all clients; Envoy rejects it.
    return None


def _header(message: Any, terminal: bool, problems: ValidationErrors) -> HeaderHash:
    if not message.header_name:
        problems.at("header_name").add("must be non-empty")
    rewrite = None
    if message.HasField("regex_rewrite"):
        rewrite = _rewrite(message.regex_rewrite, problems.at("regex_rewrite"))
    # A42: headers are looked up as for route matches, and metadata keys are lower case.
    return HeaderHash(message.header_name.lower(), rewrite, terminal)


def _rewrite(message: Any, problems: ValidationErrors) -> Rewrite | None:
    if not problems.has_field(message, "pattern"):
        return None
    at = problems.at("pattern.regex")
    # Rejected as by the C++ client: an empty expression matches between any two characters.
    if not message.pattern.regex:
        at.add("must be non-empty")
        return None
    try:
        return Rewrite(Regex(message.pattern.regex), message.substitution)
    except ValueError as error:
        at.add(f"errors compiling regex: {error}")
        return None
