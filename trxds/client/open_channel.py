"""`open_channel` wires resolver, policy tree, subchannel pool and telemetry together; this file has no other logic."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

import trio

from trxds.core.arguments import check_type, check_whole
from trxds.core.determinism import new_random
from trxds.core.event_loop import check_in_trio
from trxds.core.observe import Telemetry
from trxds.core.observers import Observers, observe
from trxds.lb.custom_policy import PolicyType
from trxds.lb.first_pass import SPREAD_WITHIN, check_spread_within
from trxds.lb.policy_options import PolicyOptions, read_ring_size_cap
from trxds.resolver.resolve_now import checked_refresh
from trxds.resolver.resolver_update import Resolver
from trxds.resolver.route_timeout import legacy_route_timeout, max_stream_duration
from trxds.resolver.target_uri import checked_authority, parse_non_xds_target
from trxds.resources.cookie_affinity import CookieAffinity
from trxds.transport.compression import IDENTITY, Compression
from trxds.transport.connect import Network, checked_network
from trxds.transport.connection_age import make_connection_age
from trxds.transport.http_proxy import TargetProxyNetwork, proxy_finder
from trxds.transport.keepalive import DEFAULT_KEEPALIVE_TIMEOUT, make_keepalive
from trxds.transport.options import MAX_METADATA_SIZE, MAX_READ_DELAY, WireOptions
from trxds.transport.pool import SubchannelPool
from trxds.transport.request import MAX_RECEIVE_SIZE
from trxds.transport.subchannel import DEFAULT_MAX_CONNECTIONS_CAP
from trxds.transport.transport_credentials import INSECURE

from .background_services import run_with_services
from .call_credentials import CallCredentials
from .call_settings import MAX_ATTEMPTS, channel_settings
from .channel import Channel
from .channel_log import ChannelLog
from .channel_state import ChannelState
from .client_channel import IDLE_TIMEOUT, ClientChannel, checked_idle_timeout
from .credentials import ChannelCredentials, checked_credentials
from .custom_channel import custom_setup, find_resolver
from .custom_filter import FilterType
from .decision_log import log_decisions
from .interceptors import Interceptor, check_interceptors
from .lifecycle import mark_after_fork
from .locations import Locations
from .mirroring import Mirroring, Mirrors, checked_mirroring
from .non_xds_channel import ServiceConfigSource, non_xds_setup
from .transport_security import host_networks

if TYPE_CHECKING:
    from trxds.admin.address import Admin
    from trxds.admin.channel_source import Source

    from .shared_xds_client import BootstrapSource, SharedXdsClient


@asynccontextmanager
async def open_channel(
    target: str,
    *,
    service_config: ServiceConfigSource = None,
    affinity: CookieAffinity | None = None,
    authority: str = "",
    user_agent: str = "",
    bootstrap: BootstrapSource = None,
    cache_dir: str | os.PathLike[str] | None = None,
    xds: SharedXdsClient | None = None,
    interceptors: Iterable[Interceptor] = (),
    compression: Compression = IDENTITY,
    call_credentials: CallCredentials | None = None,
    max_send_size: int | None = None,
    max_receive_size: int = MAX_RECEIVE_SIZE,
    max_metadata_size: int = MAX_METADATA_SIZE,
    max_call_attempts: int = MAX_ATTEMPTS,
    max_read_delay: float = MAX_READ_DELAY,
    keepalive_time: float | None = None,
    keepalive_timeout: float = DEFAULT_KEEPALIVE_TIMEOUT,
    keepalive_without_calls: bool = False,
    idle_timeout: float | None = IDLE_TIMEOUT,
    max_connection_age: float | None = None,
    max_connection_age_grace: float | None = None,
    max_connections_per_subchannel_cap: int = DEFAULT_MAX_CONNECTIONS_CAP,
    spread_within: float = SPREAD_WITHIN,
    legacy_route_timeouts: bool = False,
    sticky_aggregates: bool = False,
    credentials: ChannelCredentials = INSECURE,
    policies: Mapping[str, PolicyType] | None = None,
    http_filters: Mapping[str, FilterType] | None = None,
    resolvers: Mapping[str, Resolver] | None = None,
    refresh: float | None = None,
    http_proxy: str | None = None,
    mirroring: Mirroring | None = None,
    telemetry: Telemetry | Iterable[Telemetry] = (),
    admin: str | Admin | None = None,
    network: Network | None = None,
) -> AsyncIterator[Channel]:
    """Open a channel to `target` for as long as the block lasts.

    When the block has been left, no task and no socket of the channel remains. Leaving is always a checkpoint; entering
    is one only with `admin`, as with a nursery. It does not wait for a connection: the first calls do.

    Args:
        target: `xds:///NAME` is resolved by a control plane (A27). Targets without one are `dns:///HOST:PORT`
            (`dns:///` may be left out), `ipv4:ADDRESS:PORT` or `ipv6:[ADDRESS]:PORT` (several, separated by commas),
            `unix:///PATH` and `unix-abstract:NAME`; the port is 443 if there is none.
        service_config: For targets without a control plane: gRPC's JSON, as a text or a mapping. It sets timeouts,
            retries and hedging of methods, and the load balancing policy (pick_first by default).
        affinity: For targets without a control plane: sessions stay on one host, whichever the policy is.
        authority: The `:authority` of calls, and the name that hosts prove by TLS, in place of the target's own.
        user_agent: As in `shop/2.1`; it follows trxds's own name and version in the header of that name.
        bootstrap: A path, JSON text or a dict. Without it the environment variables GRPC_XDS_BOOTSTRAP (a
            path) and GRPC_XDS_BOOTSTRAP_CONFIG (inline JSON) name it.
        cache_dir: A directory for the last accepted resources, with which a channel starts while no control plane
            answers (`docs/how-to/survive-a-control-plane-outage.md`). None takes that of the bootstrap, if it has one.
        xds: A shared client from `open_xds_client`, which then takes `bootstrap`, `cache_dir`, `policies`
            and `http_filters`.
        interceptors: They wrap every call; the first one is the outermost
            (`docs/how-to/interceptor.md`).
        compression: `gzip`, `deflate` or `identity`, for requests whose call does not name another. Replies may be
            compressed in either way, or not at all.
        call_credentials: They are added to every call.
        max_send_size: The largest message to send, in uncompressed bytes; None is no limit.
        max_receive_size: The largest message to receive, in uncompressed bytes; 4 MiB by default. A larger one ends its
            call with RESOURCE_EXHAUSTED.
        max_metadata_size: The largest headers, or trailers, of a response, in bytes as HTTP/2 counts them (name, value
            and 32 for each field); 64 KiB by default. Larger ones end their call with RESOURCE_EXHAUSTED.
        max_call_attempts: The largest number of attempts at a call, the first included, where the control plane or the
            service config allows more (A6); 5 by default. With 1 no policy retries or hedges a call; a call that no
            server has processed is still sent again.
        max_read_delay: The longest time, in seconds, that a busy connection waits to read several responses, or several
            messages of a fast stream, at once (rounded up to whole milliseconds); 0.003 by default. That saves half of
            their CPU or more, and delays them little (`docs/concurrency.md`). 0 reads each at once.
        keepalive_time: After so many seconds (10 or more) without a byte from the host, a connection with calls sends a
            PING (A8). None sends no PING; choose a time that your servers allow.
        keepalive_timeout: If nothing comes within so many seconds after a PING, the connection is closed and its calls
            fail with UNAVAILABLE; 20 by default.
        keepalive_without_calls: With `keepalive_time`: send a PING on connections without calls too.
        idle_timeout: After so many seconds without a call (and up to an eighth more) the channel is IDLE: its
            connections to hosts end, and the next call connects and resolves DNS again; xDS watches stay. 1800 by
            default; None is never.
        max_connection_age: After so many seconds (give or take a tenth) a connection to a host is replaced: another one
            is made first, calls that are under way end on the old one, and DNS is asked again. None is never.
        max_connection_age_grace: The seconds that calls have to end on the old connection; after that they end with
            UNAVAILABLE. None lets them end by themselves.
        max_connections_per_subchannel_cap: The largest number of connections to one host, whatever the control plane or
            the service config allows (A105); 10 by default. If neither sets a number, there is one.
        spread_within: On a new channel the first call of a session waits until all hosts have connected or failed, at
            most so many seconds after the first is READY, so that sessions do not all stay on that one; 0.2 by default
            (`docs/sessions.md`). 0 is no wait.
        legacy_route_timeouts: Take a route's time limit from `timeout` (15 s if unset) and `max_grpc_timeout`, as the
            first draft of A31 has it, instead of `max_stream_duration`.
        sticky_aggregates: For xDS targets only: a session keeps its host in each cluster of an aggregate, also when a
            more preferred cluster is back (`docs/sessions.md`).
        credentials: For the hosts: `trxds.insecure()`, `trxds.tls(...)`, or `trxds.xds_credentials(fallback)` to let
            the control plane decide (A29).
        policies: Custom load balancing policies, by the name that a cluster or a service config uses (A52).
        http_filters: Custom HTTP filters for xDS targets, by the name of their configuration's type in a listener (A39;
            `docs/writing-a-filter.md`).
        resolvers: Resolvers of the program's own, by the scheme of the targets that they resolve, as in
            `{"my": my_resolver}` for `my:///cart` (`trxds.resolvers`, `docs/how-to/custom-resolver.md`).
        refresh: Resolve a `dns:` target, or one of a custom resolver, again each so many seconds (1 or more), also
            while nothing fails. None resolves again only when a connection is lost or cannot be made.
        http_proxy: The HTTP CONNECT proxy for a `dns:` target and for control planes (A1), as in
            `http://user:password@proxy.example:3128`. None takes it from the environment (`docs/security.md`); "" is
            none.
        mirroring: For xDS targets only: copy calls as `request_mirror_policies` of the routes say, within these limits
            (`docs/how-to/mirroring.md`). None ignores the field, as gRPC's other clients do.
        telemetry: One or several objects that observe the channel: `trxds.otel.telemetry(...)`, say.
        admin: `127.0.0.1:9901` or `unix:/run/shop.sock`: the address at which commands such as `trxds lb`, gRPC's own
            tools and a browser see the channel's state; a `trxds.admin.Admin` has more options.
        network: It replaces TCP, for tests.

    Raises:
        ValueError: The target is malformed, a compression is unknown, a policy, filter or resolver has the name of a
            built-in one, the service config is wrong, an option that takes a number has no number or one out of range,
            or other machines could reach the `admin` address.
        TypeError: Another argument is of the wrong type.
        BootstrapError: The bootstrap is missing or wrong.
        RuntimeError: The caller runs outside of Trio; asyncio programs use `trxds.aio`.
        OSError: The channel cannot listen at `admin`.
    """
    check_in_trio("trxds.open_channel", "use trxds.aio.open_channel", "use trxds.sync.open_channel")
    # The environment is about real hosts, and a network of a test has none.
    find_proxy = proxy_finder(http_proxy if network is None else http_proxy or "", os.environ)
    network = checked_network(network)
    admin_address, host_credentials = _checked_admin(admin), checked_credentials(credentials)
    checked_interceptors = check_interceptors(interceptors)
    custom, observers = find_resolver(target, resolvers), Observers(log=ChannelLog(target, trio.current_time))
    non_xds_target = parse_non_xds_target(target) if custom is None else None
    if custom is None and non_xds_target is None:
        # Imported late: channels without a control plane do not need the xDS client (see `trxds.preload`).
        from .shared_xds_client import xds_setup

        limits = legacy_route_timeout if legacy_route_timeouts else max_stream_duration
        _check_unset(target, "a control plane has its own", service_config=service_config)
        _check_unset(target, "the stateful session filter of the Listener makes sessions sticky", affinity=affinity)
        _check_unset(target, "the control plane sends what changes", refresh=refresh)
        setup = xds_setup(
            target,
            checked_authority(authority),
            bootstrap,
            cache_dir,
            xds,
            policies,
            http_filters,
            network,
            limits,
            observers,
            find_proxy,
            checked_mirroring(mirroring) is not None,
        )
    else:
        sticky = sticky_aggregates or None
        of_control_plane = {"bootstrap": bootstrap, "cache_dir": cache_dir, "xds": xds, "http_filters": http_filters}
        _check_unset(
            target, "no control plane is asked", sticky_aggregates=sticky, mirroring=mirroring, **of_control_plane
        )
        authority, schedule = checked_authority(authority), checked_refresh(refresh)
        if non_xds_target is not None:
            if find_proxy is not None:
                network = TargetProxyNetwork(network, find_proxy)
            setup = non_xds_setup(non_xds_target, service_config, affinity, authority, policies, network, schedule)
        else:
            assert custom is not None
            setup = custom_setup(*custom, service_config, affinity, authority, policies, schedule)
    credentials_of_calls = () if call_credentials is None else (call_credentials,)
    defaults = channel_settings(max_receive_size, max_send_size, compression, credentials_of_calls, max_call_attempts)
    state = ChannelState(target, setup, defaults, new_random(), observers, host_credentials)
    observe(observers, telemetry, state.lifecycle.canonical_target, Locations(state.data_plane))
    log_decisions(observers, target)
    mark_after_fork(state.lifecycle)
    pings = make_keepalive(keepalive_time, keepalive_timeout, keepalive_without_calls)
    options = WireOptions(max_header_list=max_metadata_size, max_read_delay=max_read_delay, user_agent=user_agent)
    age = make_connection_age(max_connection_age, max_connection_age_grace, state.random)
    cap = max_connections_per_subchannel_cap
    check_whole("max_connections_per_subchannel_cap", cap, 1, "a whole number, 1 or more")
    host_network, secured = host_networks(network, host_credentials, setup.authority, setup.providers)
    pool = SubchannelPool(
        host_network,
        options,
        state.random,
        secured,
        pings,
        observers,
        max_connections_cap=cap,
        age=age,
    )
    mirrors = Mirrors(mirroring, state, new_random()) if mirroring is not None else None
    timeout, spread_within = checked_idle_timeout(idle_timeout), check_spread_within(spread_within)
    policy_options = PolicyOptions(read_ring_size_cap(os.environ), spread_within, sticky_aggregates)
    control = ClientChannel(setup, state, pool, timeout, policy_options, mirrors)
    services = {"pool": pool.run, "control": control.run, **setup.services}
    if mirrors is not None:
        services["mirrors"] = mirrors.run
    # Outside of the services: no event may follow `closed`, and connections end with the services.
    with observers.closing():
        async with run_with_services(f"the channel to {target}", services, state.close):
            channel = Channel(state, pool, checked_interceptors)
            # The innermost block, so that the admin surface never shows a channel whose services have ended.
            async with _admin_endpoint(admin_address, channel):
                yield channel


def _check_unset(target: str, why: str, **options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} cannot be used with the target {target!r}, where {why}; leave it out")


def _checked_admin(admin: str | Admin | None) -> Admin | None:
    """Return the address as an `Admin`; `ValueError` if it is malformed or other machines could reach it."""
    if admin is None:
        return None
    from trxds.admin.address import Admin

    check_type("admin", admin, (str, Admin), "an address such as '127.0.0.1:9901', or a trxds.admin.Admin")
    return Admin(admin) if isinstance(admin, str) else admin


def _admin_endpoint(admin: Admin | None, channel: Source) -> AbstractAsyncContextManager[object]:
    """Return a block that serves the admin surface; entering raises `OSError` if the address cannot be listened on."""
    if admin is None:
        return nullcontext()
    # Imported late: a channel without an admin surface needs no HTTP server.
    from trxds.admin.server import serve

    return serve(channel, address=admin)
