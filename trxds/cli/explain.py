"""`trxds explain`: where a call would go, and why. It asks a channel of its own, and sends no call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
import trio

import trxds
from trxds.client.credentials import ChannelCredentials
from trxds.client.shared_xds_client import BootstrapSource
from trxds.core.metadata import check, from_text
from trxds.resolver.pick_outcomes import PickDropped, PickFailed, PickQueued
from trxds.resolver.route_explanation import Explanation
from trxds.transport.connect import Network

from .exit_codes import FAILURE, SUCCESS
from .own_bootstrap import own_bootstrap, xds_advice
from .running.program import Program, UnreachableError

_BAD = (PickFailed.__name__, PickDropped.__name__)
_POLL_INTERVAL = 0.05  # seconds between two looks at a tree that connects

# What programs commonly give `open_channel`.
CREDENTIALS: Mapping[str, ChannelCredentials] = MappingProxyType(
    {"insecure": trxds.insecure(), "tls": trxds.tls(), "xds": trxds.xds_credentials(trxds.insecure())}
)


def call_metadata(headers: Iterable[str], cookies: Iterable[str], name: str = "-H") -> list[tuple[str, str | bytes]]:
    """Return the metadata for KEY:VALUE headers and NAME=VALUE cookies. Values of -bin keys are base64.

    A header may be @FILE, with one in each line. Raises `ValueError` for a text that is malformed, or no such file; it
    calls headers by `name`.
    """
    pairs = [_pair(place, each) for place, each in _lines_of(headers, name)]
    listed = list(cookies)
    for number, cookie in enumerate(listed, 1):
        if "=" not in cookie:
            raise ValueError(f"--cookie number {number} has no equals sign; write NAME=VALUE")
    return [*pairs, ("cookie", "; ".join(listed))] if listed else pairs


def _lines_of(headers: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    """Yield each KEY:VALUE, and what errors call it; it may be a secret, and in a file others do not see it."""
    for number, header in enumerate(headers, 1):
        if not header.startswith("@"):
            yield f"{name} number {number}", header
            continue
        try:
            text = Path(header[1:]).read_text("utf-8")
        except OSError as error:
            raise ValueError(f"{name} {header}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise ValueError(f"{name} {header} is no UTF-8 text") from None
        for line_number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield f"{name} {header}: line {line_number}", line


def _pair(place: str, header: str) -> tuple[str, str | bytes]:
    key, colon, value = (part.strip() for part in header.partition(":"))
    if not colon:
        raise ValueError(f"{place} has no colon; write KEY:VALUE")
    try:
        (pair,) = check([(key, from_text(key, value))])
    except ValueError as error:
        raise ValueError(f"{place}: {str(error).removeprefix('metadata[0]: ')}") from None
    return pair


async def explain_call(
    target: str,
    method: str,
    metadata: Iterable[tuple[str, str | bytes]],
    bootstrap: BootstrapSource,
    within: float,
    settle: float,
    credentials: ChannelCredentials = CREDENTIALS["insecure"],
    service_config: str | None = None,
    network: Network | None = None,
) -> Explanation:
    """Explain a call by a channel of its own.

    Waits up to `within` seconds for a configuration, then up to `settle` seconds for the hosts that policies connect by
    themselves. Raises `RpcError` if there is no configuration in time.
    """
    pairs = list(metadata)
    own = own_bootstrap(target, bootstrap)
    async with trxds.open_channel(
        target, bootstrap=own, credentials=credentials, service_config=service_config, network=network
    ) as channel:
        explanation = await channel.explain(method, pairs, within)
        until = trio.current_time() + settle
        while isinstance(explanation.outcome, PickQueued) and trio.current_time() < until:
            await trio.sleep(_POLL_INTERVAL)
            explanation = await channel.explain(method, pairs)
        return explanation


async def show_explanation(
    as_json: bool,
    target: str,
    method: str,
    metadata: Iterable[tuple[str, str | bytes]],
    bootstrap: BootstrapSource,
    *arguments: Any,
) -> int:
    """Print the explanation of `explain_call` with these arguments; return the exit code."""
    try:
        explanation = await explain_call(target, method, metadata, bootstrap, *arguments)
    except trxds.RpcError as error:
        raise UnreachableError(str(error)) from error
    click.echo(json.dumps(explanation.as_data(), indent=1) if as_json else str(explanation))
    if has_destination(explanation):
        return SUCCESS
    if advice := xds_advice(target, bootstrap):
        click.echo(advice, err=True)
    return FAILURE


async def show_in_program(
    program: Program, channel: str, method: str, metadata: Iterable[tuple[str, str | bytes]], as_json: bool
) -> int:
    """Print the explanation of the program's own channel; return the exit code."""
    explanation = await program.explain(channel, method, metadata)
    with program.checking_answer():
        text = explanation.pop("text")
        code = FAILURE if explanation["outcome"]["kind"] in _BAD else SUCCESS
    click.echo(json.dumps(explanation, indent=1) if as_json else text)
    return code


def has_destination(explanation: Explanation) -> bool:
    """Return whether the call would reach a host, or wait for one."""
    return explanation.refusal is None and not isinstance(explanation.outcome, PickFailed | PickDropped)
