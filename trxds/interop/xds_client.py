"""`python -m trxds.interop.xds_client` is the xDS test client of gRPC's mesh tests (psm-interop).

    GRPC_XDS_BOOTSTRAP=bootstrap.json python -m trxds.interop.xds_client --server=xds:///shop --qps=100

It sends RPCs at a steady rate, and a test driver asks at `stats_port` what became of them. The flags and services are
those of gRPC's xds-test-descriptions.md and of the other languages' clients.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import click
import trio
from msgspec import Struct

import trxds
from trxds.client.channel import Channel
from trxds.core.error_text import leaves
from trxds.core.status import BootstrapError, StatusCode
from trxds.server.server import Server

from .cases import Failed
from .driver_services import driver_handlers
from .flags import boolean_flag
from .rpc_behavior import POLICIES
from .rpc_config import RpcConfig, make_configs, parse_metadata, parse_types
from .rpc_sender import RpcSender, SenderSettings
from .rpc_stats import RpcStats


class ClientSettings(Struct, frozen=True):
    """What the flags say of the client; `timeout` is that of RPCs for which a driver gives none, in seconds."""

    target: str
    configs: tuple[RpcConfig, ...]
    timeout: float
    channels: int = 1
    is_secure: bool = False
    sender: SenderSettings = SenderSettings()


async def run_client(
    settings: ClientSettings, listeners: Sequence[trio.abc.Listener[trio.abc.Stream]], **options: Any
) -> None:
    """Send RPCs and serve drivers at these listeners until cancelled. `options` are further ones of the channels.

    Raises `Failed`, in a group, for the failure of an RPC that ends the client.
    """
    async with AsyncExitStack() as stack:
        for listener in listeners:
            await stack.enter_async_context(listener)
        channels = [await _open_channel(stack, settings, options) for _ in range(settings.channels)]
        stats = RpcStats()
        sender = RpcSender(settings.sender, settings.configs, stats)
        server = Server(driver_handlers(stats, sender, settings.timeout, channels), remember_calls=False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(trio.serve_listeners, server.serve_stream, list(listeners)), name="services")
            await sender.run(channels)


async def _open_channel(stack: AsyncExitStack, settings: ClientSettings, options: dict[str, Any]) -> Channel:
    credentials = trxds.xds_credentials(trxds.insecure()) if settings.is_secure else trxds.insecure()
    try:
        channel = trxds.open_channel(settings.target, credentials=credentials, policies=POLICIES, **options)
        return await stack.enter_async_context(channel)
    except (ValueError, BootstrapError) as error:
        raise click.UsageError(f"--server={settings.target}: {error}") from None


async def listen(port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
    """Listen at all addresses of this machine, because drivers ask from others; with port 0 at those of IPv4.

    `click.UsageError` if nobody can listen there.
    """
    try:
        # Two sockets would have two free ports.
        listeners = await trio.open_tcp_listeners(port, host=None if port else "0.0.0.0")
    except OSError as error:
        problem = error.strerror or str(error)
        raise click.UsageError(f"--stats_port={port}: {problem}; take another port, or 0 for a free one") from None
    found = listeners[0].socket.getsockname()[1]
    print(f"the test services listen at port {found}", file=sys.stderr, flush=True)
    return listeners


def client_settings(
    server: str,
    num_channels: int,
    qps: int,
    rpc: str,
    metadata: str,
    rpc_timeout_sec: int,
    secure_mode: bool,
    fail_on_failed_rpc: bool,
    expect_status: str,
    print_response: bool,
    log_rpc_start_and_end: bool,
    request_payload_size: int,
    response_payload_size: int,
    enable_csm_observability: bool,
) -> ClientSettings:
    """Return what the flags of these names say; `click.UsageError` names one that makes no sense."""
    if enable_csm_observability:
        raise click.UsageError("--enable_csm_observability: trxds has no labels of one cloud's mesh; leave it out")
    sender = SenderSettings(
        rate=qps,
        expected=StatusCode[expect_status],
        fails_early=fail_on_failed_rpc,
        prints_responses=print_response,
        logs_rpcs=log_rpc_start_and_end,
        request_size=request_payload_size,
        response_size=response_payload_size,
    )
    configs = _configs(rpc, metadata, rpc_timeout_sec)
    return ClientSettings(server, configs, rpc_timeout_sec, num_channels, secure_mode, sender)


def _configs(rpc: str, metadata: str, timeout: float) -> tuple[RpcConfig, ...]:
    try:
        types = parse_types(rpc)
    except ValueError as error:
        raise click.UsageError(f"--rpc: {error}") from None
    try:
        return make_configs(types, parse_metadata(metadata), timeout)
    except ValueError as error:
        raise click.UsageError(f"--metadata: {error}") from None


@click.command()
@click.option("--server", default="localhost:8080", show_default=True, help="The target, such as xds:///shop.")
@click.option("--num_channels", type=click.IntRange(1), default=1, show_default=True, help="They take turns.")
@click.option(
    "--qps", type=click.IntRange(1), default=1, show_default=True, help="RPCs a second, for each channel and method."
)
@click.option(
    "--rpc", default="UnaryCall", show_default=True, help="UnaryCall, EmptyCall, or both with a comma between."
)
@click.option("--metadata", default="", help="METHOD:KEY:VALUE for the RPCs of a method; several with commas between.")
@click.option("--rpc_timeout_sec", type=click.IntRange(1), default=20, show_default=True, help="Of an RPC.")
@click.option(
    "--stats_port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="Where test drivers ask."
)
@boolean_flag("secure_mode", "Let the control plane decide on TLS; plaintext without its word.")
@boolean_flag("fail_on_failed_rpc", "End with exit 1 if an RPC fails after one has succeeded.")
@click.option(
    "--expect_status",
    type=click.Choice([code.name for code in StatusCode], case_sensitive=False),
    default="OK",
    show_default=True,
    metavar="STATUS",
    help="The status that is a success for --fail_on_failed_rpc and --print_response.",
)
@boolean_flag("print_response", "Print a line for each RPC to stdout.")
@boolean_flag("log_rpc_start_and_end", "Write a line to stderr when an RPC starts and when it ends.")
@click.option(
    "--request_payload_size", type=click.IntRange(0), default=0, show_default=True, help="In bytes, of UnaryCall."
)
@click.option(
    "--response_payload_size", type=click.IntRange(0), default=0, show_default=True, help="In bytes, if the server can."
)
@boolean_flag("enable_csm_observability", "Not offered here.")
def main(stats_port: int, **flags: Any) -> None:
    """Send RPCs to a service of a mesh, and serve a test driver; go on until stopped (Ctrl-C)."""
    settings = client_settings(**flags)
    failure: BaseException | None = None
    try:
        trio.run(_run, settings, stats_port)
    except* Failed as errors:
        failure = next(leaves(errors))
    except* KeyboardInterrupt:
        pass
    if failure is not None:
        print(failure, file=sys.stderr)
        sys.exit(1)


async def _run(settings: ClientSettings, port: int) -> None:
    await run_client(settings, await listen(port))


if __name__ == "__main__":
    main()
