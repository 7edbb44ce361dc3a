"""`python -m trxds.interop.client` runs one case against a server, and exits 0 if the case succeeds.

The flags are those of the other languages' clients, so that one harness can drive all of them.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import click
import trio
from msgspec import Struct

import trxds
from trxds.client.call_protocol import CallProtocol
from trxds.client.channel import Channel
from trxds.client.interceptors import CallDetails, Interceptor, Next
from trxds.core.metadata import Metadata, check
from trxds.core.status import RpcError
from trxds.lb.balancing_config import make_parser
from trxds.resolver.service_config import parse_service_config

from . import cases, compressed, orca, soak
from .cases import Case, Failed
from .flags import boolean_flag

CASES: Mapping[str, Case] = {
    case.__name__: case
    for case in (
        cases.cancel_after_begin,
        cases.cancel_after_first_response,
        compressed.client_compressed_streaming,
        compressed.client_compressed_unary,
        cases.client_streaming,
        cases.concurrent_large_unary,
        cases.custom_metadata,
        cases.empty_stream,
        cases.empty_unary,
        cases.large_unary,
        cases.pick_first_unary,
        cases.ping_pong,
        compressed.server_compressed_streaming,
        compressed.server_compressed_unary,
        cases.server_streaming,
        cases.special_status_message,
        cases.status_code_and_message,
        cases.timeout_on_sleeping_server,
        cases.unimplemented_method,
        cases.unimplemented_service,
    )
}
SOAKS = {"rpc_soak": soak.rpc_soak, "channel_soak": soak.channel_soak}
ORCA: Mapping[str, Callable[[Channel, orca.LatestReports], Awaitable[None]]] = {
    "orca_per_rpc": orca.orca_per_rpc,
    "orca_oob": orca.orca_oob,
}

# Those that want Google's cloud, or a proxy that caches: known, and refused by name.
ELSEWHERE = frozenset(
    {
        "cacheable_unary",
        "compute_engine_channel_credentials",
        "compute_engine_creds",
        "google_default_credentials",
        "jwt_token_creds",
        "oauth2_auth_token",
        "per_rpc_creds",
        "service_account_creds",
    }
)


class Server(Struct, frozen=True):
    """The target of the server, and the options of its channel."""

    target: str
    options: Mapping[str, Any]

    def open(self, **more: Any) -> AbstractAsyncContextManager[Channel]:
        """Open a channel with the options of the flags; the case's own options go before them."""
        return trxds.open_channel(self.target, **{**more, **self.options})


def target_of(host: str, port: int) -> str:
    """Return the target: `ipv4:` or `ipv6:` for addresses (several separated by commas), `dns:` for a name."""
    hosts = host.split(",")
    kinds = {_kind(each) for each in hosts}
    if kinds == {"dns"} and len(hosts) == 1:
        return f"dns:///{host}:{port}"
    if len(kinds) > 1 or kinds == {"dns"}:
        raise click.UsageError(f"--server_host {host!r}: one name, or addresses of one kind with commas between them")
    kind = kinds.pop()
    return f"{kind}:" + ",".join(f"[{each}]:{port}" if kind == "ipv6" else f"{each}:{port}" for each in hosts)


def _kind(host: str) -> str:
    try:
        return f"ipv{ip_address(host).version}"
    except ValueError:
        return "dns"


def _options(
    use_tls: bool,
    use_test_ca: bool,
    ca_file: str | None,
    server_host_override: str,
    additional_metadata: str,
    service_config_json: str,
    **_: Any,
) -> dict[str, Any]:
    """Return the arguments of `open_channel` for these flags."""
    options: dict[str, Any] = {}
    if use_tls:
        if use_test_ca and ca_file is None:
            raise click.UsageError("--use_test_ca: say where it is, with --ca_file")
        options["credentials"] = trxds.tls(roots=ca_file if use_test_ca else None, server_name=server_host_override)
    if server_host_override:
        options["authority"] = server_host_override
    if service_config_json:
        options["service_config"] = _service_config(service_config_json)
    if additional_metadata:
        options["interceptors"] = [adding(_pairs(additional_metadata))]
    return options


def _service_config(text: str) -> str:
    try:
        parse_service_config(text, make_parser({orca.POLICY: dict}))
    except ValueError as error:
        raise click.UsageError(f"--service_config_json: {error}") from None
    return text


def _pairs(text: str) -> Metadata:
    pairs = [each.partition(":") for each in text.split(";") if each]
    try:
        if not all(colon for _, colon, _ in pairs):
            raise ValueError("pairs of key:value, with semicolons between them")
        return check((key, value) for key, _, value in pairs)
    except (ValueError, TypeError) as error:
        raise click.UsageError(f"--additional_metadata: {error}") from None


def adding(metadata: Metadata) -> Interceptor:
    """Return an interceptor that adds this metadata to every call."""

    @asynccontextmanager
    async def add(call: CallDetails, next: Next) -> AsyncIterator[CallProtocol[Any, Any]]:
        async with next(replace(call, metadata=[*call.metadata, *metadata])) as stream:
            yield stream

    return add


def _soak(flags: Mapping[str, Any]) -> soak.Soak:
    return soak.Soak(
        iterations=flags["soak_iterations"],
        max_failures=flags["soak_max_failures"],
        max_latency=flags["soak_per_iteration_max_acceptable_latency_ms"] / 1000,
        overall_timeout=flags["soak_overall_timeout_seconds"],
        pause=flags["soak_min_time_ms_between_rpcs"] / 1000,
        request_size=flags["soak_request_size"],
        response_size=flags["soak_response_size"],
        workers=flags["soak_num_threads"],
    )


@click.command()
@click.option("--server_host", default="localhost", show_default=True, help="A name, or addresses with commas between.")
@click.option("--server_port", type=click.IntRange(1, 65535), default=10000, show_default=True)
@click.option("--server_host_override", default="", help="The name for TLS and :authority instead of the host.")
@click.option("--test_case", default="large_unary", show_default=True, help="Which case; an unknown one lists them.")
@boolean_flag("use_tls", "Connect with TLS.")
@boolean_flag("use_test_ca", "Trust the certificates of --ca_file instead of the platform's.")
@click.option("--ca_file", type=click.Path(exists=True, dir_okay=False), help="PEM file of the test CA.")
@click.option("--additional_metadata", default="", help="key:value pairs for every call, with semicolons between.")
@click.option("--service_config_json", default="", help="The service config, instead of one that a resolver may have.")
@click.option("--soak_iterations", type=click.IntRange(1), default=10, show_default=True)
@click.option("--soak_max_failures", type=click.IntRange(0), default=0, show_default=True)
@click.option("--soak_per_iteration_max_acceptable_latency_ms", type=int, default=1000, show_default=True)
@click.option("--soak_overall_timeout_seconds", type=int, default=10, show_default=True)
@click.option("--soak_min_time_ms_between_rpcs", type=int, default=0, show_default=True)
@click.option("--soak_request_size", type=int, default=cases.LARGE_REQUEST, show_default=True)
@click.option("--soak_response_size", type=int, default=cases.LARGE_REPLY, show_default=True)
@click.option("--soak_num_threads", type=click.IntRange(1), default=1, show_default=True, help="Calls at a time.")
@click.option("--default_service_account", hidden=True)
@click.option("--oauth_scope", hidden=True)
@click.option("--service_account_key_file", hidden=True)
def main(test_case: str, server_host: str, server_port: int, **flags: Any) -> None:
    """Run one of gRPC's interoperability cases against a server; exit 0 if it succeeds, 1 if not."""
    server = Server(target_of(server_host, server_port), _options(**flags))
    failure: BaseException | None = None
    try:
        trio.run(_run, test_case, server, _soak(flags))
    except* (Failed, RpcError) as errors:  # a group, where a case has calls side by side
        failure = errors.exceptions[0]
    if failure is not None:
        print(f"{test_case}: failed: {failure}", file=sys.stderr)
        sys.exit(1)
    print(f"{test_case}: passed")


async def _run(name: str, server: Server, settings: soak.Soak) -> None:
    if name in SOAKS:
        await SOAKS[name](settings, server.open)
    elif name in ORCA:
        heard = orca.LatestReports()
        async with server.open(policies=heard.policies, service_config=orca.SERVICE_CONFIG) as channel:
            await ORCA[name](channel, heard)
    elif name in CASES:
        async with server.open() as channel:
            await CASES[name](channel)
    else:
        raise click.UsageError(_unknown(name))


def _unknown(name: str) -> str:
    if name in ELSEWHERE:
        return f"--test_case {name} needs Google's cloud or a caching proxy, and is not offered here"
    return f"--test_case {name!r} is none of {', '.join(sorted([*CASES, *SOAKS, *ORCA]))}"


if __name__ == "__main__":
    main()
