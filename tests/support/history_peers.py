"""The clients of other projects that live through random histories, and what is drawn for each of them."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import go_peers, java_peers
from .driven import Driven, running

BACKOFF = 0.12  # seconds, of all clients
CONNECT_TIMEOUT = 0.25  # seconds in place of 20
RESOURCE_TIMEOUT = 1.2  # seconds in place of 15
_PROGRAM = Path(__file__).parents[1] / "peers" / "grpcio_driven.py"


@dataclass(frozen=True)
class Peer:
    """A client of another project. What it does otherwise than ours is in docs/grfc-map.md with the reason."""

    client: Callable[[str, dict[str, Any], dict[str, str]], AbstractAsyncContextManager[Driven]]
    """Runs one for a target and a bootstrap, in that environment."""
    modes: tuple[str, ...]
    """The rules for errors of resources in use."""
    has_sessions: bool
    checks_lengths: bool
    """Whether it refuses a virtual host without domains, and drops without a category."""
    fails_without_a_cluster: bool
    """Whether RPCs to a removed cluster fail, and those to an aggregate only if all of its parts do."""
    watches_routes_without_a_listener: bool
    sorts_context_parameters: bool
    """Whether it takes a cluster whose name has them in another order than the resource's own name."""
    watches_clusters_without_routes: bool = True
    """Whether it watches clusters and endpoints, and a listener's routes, while these are in error."""
    is_lenient: bool = False
    """Whether it accepts an address that stands twice, and any `lrs_server` of an aggregate."""
    fails_without_endpoints: bool = True
    """Whether RPCs to a cluster fail whose endpoints are gone while some were connected."""
    leaves_out_weights_of_0: bool = True
    """Whether it does not watch a cluster that a route gives no weight."""
    has_localities_of_priorities: bool = True
    """Whether a locality may stand in several priorities."""


@asynccontextmanager
async def _running(
    command: list[str], target: str, bootstrap: dict[str, Any], options: Any, environ: dict[str, str]
) -> AsyncIterator[Driven]:
    async with running(command, **environ, GRPC_XDS_BOOTSTRAP_CONFIG=json.dumps(bootstrap)) as client:
        await client.ask("begin", target, options)
        yield client


def _grpcio(target: str, bootstrap: dict[str, Any], environ: dict[str, str]) -> AbstractAsyncContextManager[Driven]:
    options = {
        "grpc.initial_reconnect_backoff_ms": int(BACKOFF * 1000),
        "grpc.min_reconnect_backoff_ms": int(CONNECT_TIMEOUT * 1000),  # the timeout of an attempt
        "grpc.max_reconnect_backoff_ms": int(BACKOFF * 1000),
        "grpc.dns_enable_srv_queries": 0,
    }
    return _running([sys.executable, str(_PROGRAM)], target, bootstrap, options, environ)


def _grpc_go(target: str, bootstrap: dict[str, Any], environ: dict[str, str]) -> AbstractAsyncContextManager[Driven]:
    options = {"backoff": BACKOFF, "connect_timeout": CONNECT_TIMEOUT, "resource_timeout": RESOURCE_TIMEOUT}
    return _running([str(go_peers.program("client"))], target, bootstrap, options, environ)


def _grpc_java(target: str, bootstrap: dict[str, Any], environ: dict[str, str]) -> AbstractAsyncContextManager[Driven]:
    options = {"backoff": BACKOFF, "resource_timeout": RESOURCE_TIMEOUT}
    return _running(java_peers.command("Client"), target, bootstrap, options, {**java_peers.AS_WE_DO, **environ})


GRPCIO = Peer(
    _grpcio,
    modes=("plain", "plain", "ignore deletions", "A88", "A88 fail"),
    has_sessions=True,
    checks_lengths=True,
    fails_without_a_cluster=True,
    watches_routes_without_a_listener=True,
    sorts_context_parameters=True,
)
# A history with which it fails may be one of the rare ones that have its priority policy switch to and fro for ever.
GRPC_GO = Peer(
    _grpc_go,
    modes=("plain", "plain", "ignore deletions"),
    has_sessions=False,
    checks_lengths=False,
    fails_without_a_cluster=False,
    watches_routes_without_a_listener=False,
    sorts_context_parameters=False,
)
GRPC_JAVA = Peer(
    _grpc_java,
    modes=("plain", "plain", "ignore deletions", "A88", "A88 fail"),
    has_sessions=False,
    checks_lengths=False,
    fails_without_a_cluster=True,
    watches_routes_without_a_listener=False,
    sorts_context_parameters=False,
    watches_clusters_without_routes=False,
    is_lenient=True,
    fails_without_endpoints=False,
    leaves_out_weights_of_0=False,
    has_localities_of_priorities=False,
)
