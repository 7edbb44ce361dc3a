"""This file sets up the xDS client of a channel: the channel's own, or one that several channels share."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import trio
from msgspec import structs

from trxds.core.arguments import check_type
from trxds.core.determinism import new_random
from trxds.core.event_loop import check_in_trio
from trxds.core.observe import NOWHERE, Telemetry
from trxds.core.observers import Observers, observe
from trxds.lb.balancing_config import make_struct_policies
from trxds.lb.circuit_breakers import CircuitBreakers
from trxds.lb.config_builder import build_root
from trxds.lb.configs import ClusterManagerConfig
from trxds.lb.custom_policy import PolicyType
from trxds.lb.load_report.load_store import LoadStore
from trxds.resolver.resolver_result_handler import ResolverResultHandler
from trxds.resolver.route_timeout import TimeoutRule
from trxds.resolver.target_uri import canonical
from trxds.resolver.xds_resolver import XdsResolver
from trxds.resources.context import ParseContext
from trxds.resources.experiments import read_experiments
from trxds.resources.filter_config import HttpFilterType
from trxds.resources.lb_policy import parse_custom_policy
from trxds.resources.stateful_session import STATEFUL_SESSION
from trxds.transport.connect import Network, checked_network
from trxds.transport.http_proxy import FindProxy, proxy_finder, server_network
from trxds.xds.bootstrap import Bootstrap, load, parse, read
from trxds.xds.cache_directory import CacheDirectory
from trxds.xds.cache_file import cache_key
from trxds.xds.resource_cache import CacheLocation
from trxds.xds.resource_error_policy import is_a88_enabled
from trxds.xds.resource_names import parse_target
from trxds.xds.xds_client import XdsClient

from .background_services import run_with_services
from .channel_log import ChannelLog
from .custom_filter import FilterType, HttpFilters, filter_types
from .decision_log import log_decisions
from .resolver_setup import Policies, ResolverSetup, checked_policies

SHARED_TARGET = "#shared"  # the target of a client that channels share (A78)

BootstrapSource: TypeAlias = Bootstrap | Mapping[str, Any] | str | os.PathLike[str] | None


class SharedXdsClient:
    """An xDS client that channels can share; it comes from `open_xds_client` and works while that block lasts."""

    def __init__(
        self,
        settings: Bootstrap,
        network: Network,
        policies: Policies | None,
        observers: Observers,
        find_proxy: FindProxy | None,
        http_filters: HttpFilters | None,
        mirroring: bool,
        cache_target: str = SHARED_TARGET,
    ) -> None:
        self._http_filters = http_filters or {}
        self._settings = settings
        self._policies = checked_policies(policies)
        self._limits = CircuitBreakers()  # A32: requests are counted over all channels of a client
        self._loads = LoadStore()
        self._mirroring = mirroring
        providers = frozenset(settings.certificate_providers)
        self._client = XdsClient(
            settings,
            server_network(network, find_proxy),
            new_random(),
            parse_context(providers, self._policies, filter_types(self._http_filters), mirroring),
            self._loads,
            data_error_handling=is_a88_enabled(os.environ),
            observers=observers,
            cache=_cache_location(settings, cache_target),
        )
        self._closed = False

    def __repr__(self) -> str:
        servers = ", ".join(server.uri for server in self._settings.servers)
        return f"<Xds {servers} {'closed' if self._closed else 'open'}>"

    def admin_client(self) -> XdsClient:
        """Return the admin surface's view of the client; not for programs, because it changes between releases."""
        return self._client

    def _check_open(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("the xDS client is closed")

    def _close(self, bug: BaseException | None) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()


@asynccontextmanager
async def open_xds_client(
    *,
    bootstrap: BootstrapSource = None,
    policies: Mapping[str, PolicyType] | None = None,
    http_filters: Mapping[str, FilterType] | None = None,
    http_proxy: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    telemetry: Telemetry | Iterable[Telemetry] = (),
    network: Network | None = None,
    mirroring: bool = False,
) -> AsyncIterator[SharedXdsClient]:
    """Open an xDS client for several channels: `open_channel(target, xds=xds)`.

    The channels share its streams to the control plane, its cache, and the counts of circuit breakers (A32). The
    arguments are those of `open_channel`; `telemetry` observes the client and not the channels, and its target is
    "#shared" (A78), which is also that of the cache on disk. With `mirroring` it reads `request_mirror_policies`, and
    its channels may have an argument of that name (`docs/how-to/mirroring.md`). Channels that are open when the block
    is left keep their configuration; calls that wait for one fail.

    Raises `ValueError` for the name of a built-in policy or filter, `BootstrapError` for a bad bootstrap, and
    `RuntimeError` outside of Trio, before anything runs. Leaving is always a checkpoint, and entering is none.
    """
    remedies = (f"use trxds.{each}.open_channel, which has an xDS client of its own" for each in ("aio", "sync"))
    check_in_trio("trxds.open_xds_client", *remedies)
    observers = Observers(log=ChannelLog("shared xDS client", trio.current_time))
    # It has streams to control planes and no endpoints, so no address has a locality.
    observe(observers, telemetry, SHARED_TARGET, lambda address, backend="": NOWHERE)
    log_decisions(observers, "shared xDS client")
    # The environment's proxy is for the system's network: one in memory, for tests, does not know it.
    find_proxy = proxy_finder(http_proxy if network is None else http_proxy or "", os.environ)
    settings = with_cache_dir(load_settings(bootstrap), cache_dir)
    network = checked_network(network)
    xds = SharedXdsClient(settings, network, policies, observers, find_proxy, http_filters, mirroring)
    with observers.closing():
        async with run_with_services("the xDS client", {"ads": xds._client.run}, xds._close):
            yield xds


def xds_setup(
    target: str,
    authority: str,
    bootstrap: BootstrapSource,
    cache_dir: str | os.PathLike[str] | None,
    xds: SharedXdsClient | None,
    policies: Policies | None,
    http_filters: HttpFilters | None,
    network: Network,
    limits: TimeoutRule,
    observers: Observers,
    find_proxy: FindProxy | None,
    mirroring: bool,
) -> ResolverSetup:
    """Return the resolver setup of an xDS target, with a shared client or one that runs as long as the channel.

    An `authority` replaces the target's; it also selects the virtual host.
    """
    check_type("xds", xds, (SharedXdsClient, type(None)), "a client of trxds.open_xds_client, or None")
    if xds is None:
        settings = with_cache_dir(load_settings(bootstrap), cache_dir)
        shared = SharedXdsClient(
            settings, network, policies, observers, find_proxy, http_filters, mirroring, canonical(target)
        )
    elif any(given is not None for given in (bootstrap, policies, cache_dir, http_filters)):
        # A shared client parses resources once for all channels: one bootstrap, one set of custom policies and filters.
        what = "bootstrap, policies, cache_dir and http_filters are the xDS client's when it is shared"
        raise ValueError(f"{what}; give them to open_xds_client")
    elif mirroring and not xds._mirroring:
        text = "mirroring: the shared xDS client ignores mirror policies; open it by open_xds_client(mirroring=True)"
        raise ValueError(text)
    else:
        xds._check_open()
        shared = xds
    client, names = shared._client, parse_target(target, shared._settings)
    authority = authority or names.authority

    first_wait = FirstConfiguration()

    def make_resolver(handler: ResolverResultHandler) -> XdsResolver:
        handler = structs.replace(handler, limits=limits)
        first_wait.resolver = XdsResolver(client, network.resolve, names.listener, authority, handler, new_random())
        return first_wait.resolver

    return ResolverSetup(
        authority,
        make_resolver,
        ClusterManagerConfig.policy,
        build_root,
        shared._policies,
        shared._limits,
        shared._loads,
        shared._settings.certificate_providers,
        # A shared client runs in the block of `open_xds_client`, for all its channels.
        {"ads": client.run} if xds is None else {},
        client,
        first_wait=first_wait,
        http_filters=shared._http_filters,
    )


class FirstConfiguration:
    """`str` of a `FirstConfiguration` names the pending resources; only calls that waited in vain pay for that text."""

    resolver: XdsResolver | None = None

    def __str__(self) -> str:
        pending = self.resolver.describe_pending if self.resolver is not None else ""
        return "a configuration from the control plane" + (pending and f": {pending}")


def load_settings(bootstrap: BootstrapSource) -> Bootstrap:
    """Return the bootstrap from any of the forms that a user may pass; `BootstrapError` if it is bad."""
    if bootstrap is None:
        return load(os.environ)
    if isinstance(bootstrap, Bootstrap):
        return bootstrap
    if isinstance(bootstrap, Mapping):
        return parse(bootstrap)
    # A path could begin with a brace too, but then the error of the JSON parser shows the mistake.
    if isinstance(bootstrap, str) and bootstrap.lstrip().startswith("{"):
        return parse(bootstrap)
    if isinstance(bootstrap, str | os.PathLike):
        return read(Path(bootstrap))
    raise TypeError(f"bootstrap is a path, JSON text or a mapping, not {type(bootstrap).__name__}")


def parse_context(
    certificate_providers: frozenset[str],
    policies: Mapping[str, PolicyType],
    filters: Mapping[str, HttpFilterType],
    mirroring: bool = False,
) -> ParseContext:
    """Return the settings of a client's parsers; gRPC's environment variables switch features."""
    experiments = read_experiments(os.environ)
    if not experiments.override_host:  # A55: without session affinity its filter is unknown
        filters = {name: each for name, each in filters.items() if each is not STATEFUL_SESSION}
    own = {name: partial(parse_custom_policy, kind.parse) for name, kind in policies.items()}
    return ParseContext(
        http_filters=filters,
        struct_policies={**make_struct_policies(experiments), **own},
        certificate_providers=certificate_providers,
        experiments=experiments,
        mirroring=mirroring,
    )


def with_cache_dir(settings: Bootstrap, cache_dir: str | os.PathLike[str] | None) -> Bootstrap:
    """Return the bootstrap with the program's directory for the cache, which goes before its own."""
    if cache_dir is None:
        return settings
    check_type("cache_dir", cache_dir, (str, os.PathLike), "the path of a directory")
    if not os.fspath(cache_dir) or "\0" in os.fspath(cache_dir):
        raise ValueError(f"cache_dir is {os.fspath(cache_dir)!r}; write the path of a directory, or leave it out")
    # Absolute, because the program may change its working directory before the cache is written.
    return structs.replace(settings, cache=structs.replace(settings.cache, directory=os.path.abspath(cache_dir)))


def _cache_location(settings: Bootstrap, target: str) -> CacheLocation | None:
    """Return the cache of that target; None if neither the bootstrap nor the program names a directory."""
    cache = settings.cache
    if not cache.directory:
        return None
    return CacheLocation(CacheDirectory(Path(cache.directory)), cache_key(settings, target), cache.max_age)
