"""The texts of `--hosts`: `latency=5ms p99=80ms errors=0.1% capacity=50`, for all hosts or for one address."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import structs

from trxds.cli.quantities import parse_seconds, parse_share
from trxds.testing.simulation.echo_host import Behaviour

from .plan import HostBehaviour

_KEYS = ("latency", "p99", "errors", "capacity")


def parse_behaviours(
    texts: Iterable[str], addresses: Collection[str]
) -> tuple[HostBehaviour, Mapping[str, HostBehaviour]]:
    """Return the behaviour of all hosts, and that of single ones. `ValueError` says what is wrong."""
    everybody = HostBehaviour()
    single: dict[str, dict[str, Any]] = {}
    for text in texts:
        words = text.split()
        address = words.pop(0) if words and "=" not in words[0] else ""
        if address and address not in addresses:
            raise ValueError(f"{address} is no endpoint in any of the files")
        changes = dict(_parse(word) for word in words)
        if not changes:
            raise ValueError(
                f"{text!r} says nothing; write latency=5ms p99=80ms errors=0.1% capacity=50, or some of them"
            )
        if address:
            single.setdefault(address, {}).update(changes)
        else:
            everybody = _checked(everybody, changes)
    return everybody, {address: _checked(everybody, changes) for address, changes in single.items()}


def _checked(behaviour: HostBehaviour, changes: Mapping[str, Any]) -> HostBehaviour:
    made = structs.replace(behaviour, **changes)
    Behaviour(**structs.asdict(made))  # its constructor checks how the numbers fit
    return made


def _parse(word: str) -> tuple[str, Any]:
    key, _, value = word.partition("=")
    if key not in _KEYS or not value:
        raise ValueError(f"{word!r} is none of {', '.join(f'{each}=...' for each in _KEYS)}")
    if key == "errors":
        return "error_rate", parse_share(value)
    if key == "capacity":
        if not value.isdecimal():
            raise ValueError(f"{word!r}: a capacity is a number of calls at a time")
        return key, int(value)
    return key, parse_seconds(value)
