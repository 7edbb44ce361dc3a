"""`open_channel`: everybody meets here. This file wires the rooms together and does nothing else."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from random import Random
from typing import TYPE_CHECKING

import trio

from trxds.core import metadata as md
from trxds.core.connectivity import Connectivity
from trxds.core.observe import Observer, Telemetry
from trxds.core.observers import Observers, observe
from trxds.lb.custom_policy import PolicyType
from trxds.resolver.route_explanation import Explanation
from trxds.resolver.route_timeout import legacy_route_timeout, max_stream_duration
from trxds.resolver.target_uri import canonical, checked_authority, parse_non_xds_target
from trxds.session_affinity.session_hosts import CookieKey, SessionHost
from trxds.transport.compression import IDENTITY, parse_encoding
from trxds.transport.connect import Network, TcpNetwork
from trxds.transport.keepalive import DEFAULT_KEEPALIVE_TIMEOUT, make_keepalive
from trxds.transport.options import MAX_METADATA_SIZE, MAX_READ_DELAY, WireOptions
from trxds.transport.pool import SubchannelPool
from trxds.transport.request import MAX_RECEIVE_SIZE
from trxds.transport.transport_credentials import INSECURE

from .admin_endpoint import admin_endpoint, checked_admin
from .admin_view import AdminView
from .background_services import run_with_services
from .call_credentials import CallCredentials
from .call_explanation import explain
from .call_protocol import Pairs
from .call_scope import CallScope
from .call_settings import CallSettings
from .channel_state import ChannelState
from .client_channel import IDLE_TIMEOUT, ClientChannel, idle_after
from .credentials import ChannelCredentials, checked_credentials
from .fork import tell_after_fork
from .interceptors import Interceptor
from .locations import Locations
from .method import checked_path
from .non_xds_channel import ServiceConfigSource, plain_origin
from .open_session import FIRST_WITHIN, OpenSession
from .shared_xds_client import BootstrapSource, SharedXdsClient, xds_origin
from .state_iterator import StateIterator
from .stub import MethodFactory
from .transport_security import make_pool

if TYPE_CHECKING:
    from trxds.admin.address import Admin


class Session(MethodFactory):
    """The calls of one session: they share a cookie jar, and so meet one host while it can be used (A55).

    Made by `Channel.session`; usable from any task while that block is open.
    """

    def __init__(self, state: ChannelState, interceptors: Sequence[Interceptor], session: OpenSession) -> None:
        super().__init__(state, interceptors, session)
        self._open_session = session

    @property
    def hosts(self) -> Mapping[CookieKey, SessionHost]:
        """Return the host and cluster that each cookie of the session names, by the cookie's name and path.

        Empty before the first response. There are several if routes have session filters with different cookies.
        """
        return self._open_session.hosts

    @property
    def host(self) -> str | None:
        """Return the session's host as `ip:port`, None before the first response.

        Raises `ValueError` if the session has several hosts.
        """
        only = self._open_session.only_host
        return None if only is None else only.host

    @property
    def cluster(self) -> str | None:
        """Return the cluster of the session's host, None before the first response; empty for a session by header.

        Raises `ValueError` if the session has several hosts.
        """
        only = self._open_session.only_host
        return None if only is None else only.cluster

    @property
    def since(self) -> float:
        """Return when the session was opened, in seconds on Trio's clock."""
        return self._open_session.cookies.since

    @property
    def calls(self) -> int:
        """Return how many calls have begun in the session."""
        return self._open_session.cookies.calls

    def __repr__(self) -> str:
        return repr(self._open_session)


class Channel(MethodFactory):
    """A way to a service. Made by `open_channel`; usable from any task while that block is open."""

    def __init__(self, state: ChannelState, pool: SubchannelPool, interceptors: Sequence[Interceptor] = ()) -> None:
        super().__init__(state, interceptors)
        self._pool = pool

    @property
    def target(self) -> str:
        """What the channel was opened to."""
        return self._state.lifecycle.target

    # -- its state

    @property
    def state(self) -> Connectivity | None:
        """Where the channel stands, as a call would find it; None once it is closed.

        IDLE: nobody has called for long, or pick_first has lost its host, and the next call connects. CONNECTING:
        calls wait. READY: they go out. TRANSIENT_FAILURE: they fail, unless they wait for ready.
        """
        self._state.lifecycle.check_process()
        return self._state.data_plane.connectivity

    async def wait_for_state_change(self, last: Connectivity | None) -> Connectivity | None:
        """The state, as soon as it is another one than `last`. It may have been others in between.

        Always a checkpoint.
        """
        self._state.lifecycle.check_process()
        return await self._state.data_plane.wait_for_state_change(last)

    def states(self) -> StateIterator:
        """The state now and each later one, for `async for`, until the channel closes; a slow reader skips some.

        Each step is always a checkpoint.
        """
        return StateIterator(self._state)

    def try_to_connect(self) -> None:
        """If the channel is IDLE, have it connect without a call. Plain."""
        if self._state.lifecycle.closed:
            raise self._state.lifecycle.not_open_error()
        self._state.data_plane.exit_idle()
        if self._state.data_plane.tree is not None:
            self._state.data_plane.tree.exit_idle()

    # -- its calls

    @asynccontextmanager
    async def session(
        self, *, wait_for_first: bool = True, first_within: float = FIRST_WITHIN, require: bool = False
    ) -> AsyncIterator[Session]:
        """Open a session: one cookie jar, and one host for all calls in the block (A55).

        A session is sticky only if a stateful session filter of the xDS configuration takes part in its calls; the log
        warns of methods for which there is none. With `require=True` such calls fail with UNAVAILABLE, and are not
        retried.

        Calls that begin while the session has no cookie wait for the response headers of its first call, at most
        `first_within` seconds; `wait_for_first=False` switches that off.

        With the block the session ends: calls that are under way end with CANCELLED, and later ones raise
        `trio.ClosedResourceError`. Entering is always a checkpoint, and leaving is none. Raises `ValueError` for a
        `first_within` that is no number of seconds from 0.
        """
        if self._state.lifecycle.closed:
            raise self._state.lifecycle.not_open_error()
        with self._state.sessions.session(wait_for_first, first_within, required=require) as session:
            await trio.lowlevel.checkpoint()
            yield Session(self._state, self._interceptors, session)

    async def explain(self, method: str, metadata: Pairs = (), timeout: float | None = None) -> Explanation:
        """Where a call of `method` would go now, and why: route, cluster, time limit, filters, policies, host.

        Waits for a configuration as a call does, up to `timeout` seconds; nothing is sent and nothing connected. Of a
        session's cookies it knows what `metadata` says. Raises `RpcError` if there is no configuration in time (it
        says what is missing) or the channel closes, and `ValueError` for a method that is not of the form
        /package.Service/Method. Always a checkpoint.
        """
        pairs, state = md.check(metadata), self._state
        scope = CallScope(state.lifecycle, checked_path(method), state.now(), timeout, state.awaited)
        selector, tree = await scope.run_with_deadline(state.data_plane.wait_settled)
        return explain(selector, tree, method, pairs, trio.current_time())

    def admin_view(self) -> AdminView:
        """Return what the admin surface reads of the channel; not for programs, for it changes with the releases."""
        return AdminView(self._state, self._pool)

    def closed_error(self) -> Exception:
        """Return what a call raises that was open when the channel closed."""
        return self._state.lifecycle.closed_error()

    def observed_by(self, observer: Observer) -> AbstractContextManager[None]:
        """Have `observer` told of all that the channel does, as long as the block lasts (`trxds.Observer`)."""
        return self._state.observers.watched_by(observer)

    def __repr__(self) -> str:
        standing = "closed" if self._state.lifecycle.closed else "open"
        return f"<Channel {self.target} {standing}, {len(self._state.calls.open)} calls>"


@asynccontextmanager
async def open_channel(
    target: str,
    *,
    service_config: ServiceConfigSource = None,
    authority: str = "",
    bootstrap: BootstrapSource = None,
    xds: SharedXdsClient | None = None,
    interceptors: Iterable[Interceptor] = (),
    compression: str = IDENTITY,
    call_credentials: CallCredentials | None = None,
    max_send_size: int | None = None,
    max_receive_size: int = MAX_RECEIVE_SIZE,
    max_metadata_size: int = MAX_METADATA_SIZE,
    max_read_delay: float = MAX_READ_DELAY,
    keepalive_time: float | None = None,
    keepalive_timeout: float = DEFAULT_KEEPALIVE_TIMEOUT,
    keepalive_without_calls: bool = False,
    idle_timeout: float | None = IDLE_TIMEOUT,
    legacy_route_timeouts: bool = False,
    credentials: ChannelCredentials = INSECURE,
    policies: Mapping[str, PolicyType] | None = None,
    telemetry: Telemetry | Iterable[Telemetry] = (),
    admin: str | Admin | None = None,
    network: Network | None = None,
) -> AsyncIterator[Channel]:
    """Open a channel to `target` for as long as the block lasts.

    `xds:///NAME` asks a control plane. Without one: `dns:///HOST:PORT` (also without `dns:///`), `ipv4:ADDRESS:PORT`
    or `ipv6:[ADDRESS]:PORT`, several of them with commas between, `unix:///PATH`, `unix-abstract:NAME`; the
    port is 443 if there is none. Then `service_config`, gRPC's JSON as a text or a mapping, says what a
    method's calls have (timeout, retries, hedging) and how hosts are chosen (pick_first if it does not).
    `authority` takes the place of the target's own as `:authority`, and as the name that hosts prove by TLS.

    `bootstrap` is a path or the document itself; otherwise the environment variables
    GRPC_XDS_BOOTSTRAP (a path) and GRPC_XDS_BOOTSTRAP_CONFIG (inline JSON) have it. `xds` is a client
    to share, from `open_xds_client`, which then has `bootstrap` and `policies`.
    `interceptors` are around every call, the first one outermost (`docs/calls.md`).
    `compression`, `gzip` or `deflate`, is that of requests whose call does not name another; replies are read in
    either, or uncompressed, as the server likes. `call_credentials` are shown by every call.
    `max_send_size` and `max_receive_size` bound a message, in bytes before it was compressed, and
    `max_metadata_size` a response's headers or its trailers, by HTTP/2's count (32 bytes for each field beside
    name and value); what is larger ends its call with RESOURCE_EXHAUSTED.

    After `keepalive_time` seconds (at least 10) without a byte a host that has calls is asked for a sign of life
    (A8), with `keepalive_without_calls` one that has none too; if it gives none within `keepalive_timeout` seconds,
    the connection is closed and its calls are UNAVAILABLE. None asks never: choose what your servers allow.

    Where many calls are under way on a connection and their answers come one by one, these are left to gather, for a
    quarter of what a quick call takes and `max_read_delay` seconds at most: that saves a third of their CPU. 0 is
    never.

    After `idle_timeout` seconds without a call (and up to an eighth more) the channel is IDLE: its connections to hosts
    end, and the next call begins anew with them and with DNS; xDS watches stay. None is never.

    `legacy_route_timeouts` takes a route's time limit from `timeout` (15 s if unset) and `max_grpc_timeout`, as the
    first draft of A31 has it, instead of `max_stream_duration`. `credentials` are for the hosts: `trxds.insecure()`,
    `trxds.tls(...)`, or `trxds.xds_credentials(fallback)` to have the control plane decide (A29). `policies` are load
    balancing policies of your own, by the name with which a cluster or a service config asks for them (A52).
    `telemetry`, one or several, watches all that the channel does: `trxds.otel.telemetry(...)` (`docs/telemetry.md`).
    `admin`, `127.0.0.1:9901` or `unix:/run/shop.sock`, is where commands such as `trxds lb`, gRPC's own tools and a
    browser see what the channel does (`docs/operating.md`); a `trxds.admin.Admin` has more to choose. `network`
    replaces TCP, for tests.

    Raises `ValueError` for a target that is none, an unknown compression, a policy's name that is taken, a bad
    service config or an `admin` that would be open to other machines, and `BootstrapError` for a bad bootstrap, all
    before anything runs; `OSError` if nobody can listen at `admin`. When the block is left, no task and no socket of
    the channel is. Leaving is always a checkpoint; entering is one only with `admin`, as with a nursery.
    """
    network = network or TcpNetwork()
    served, trusted = checked_admin(admin), checked_credentials(credentials)
    plain, observers = parse_non_xds_target(target), Observers()
    if plain is None:
        limits = legacy_route_timeout if legacy_route_timeouts else max_stream_duration
        _check_unset(target, "a control plane has its own", service_config=service_config)
        origin = xds_origin(target, checked_authority(authority), bootstrap, xds, policies, network, limits, observers)
    else:
        _check_unset(target, "no control plane is asked", bootstrap=bootstrap, xds=xds)
        origin = plain_origin(plain, service_config, checked_authority(authority), policies, network)
    shown = () if call_credentials is None else (call_credentials,)
    most = math.inf if max_send_size is None else max_send_size
    defaults = CallSettings(max_receive_size, most, parse_encoding(compression), shown)
    state = ChannelState(target, origin, defaults, Random(), observers)
    observe(observers, telemetry, canonical(target), Locations(state.data_plane))
    tell_after_fork(state.lifecycle)
    asking = make_keepalive(keepalive_time, keepalive_timeout, keepalive_without_calls)
    options = WireOptions(max_header_list=max_metadata_size, max_read_delay=max_read_delay)
    pool = make_pool(network, trusted, origin.authority, origin.providers, state.random, options, asking, observers)
    control = ClientChannel(origin, state, pool, idle_after(idle_timeout))
    services = {"pool": pool.run, "control": control.run, **origin.services}
    with observers.to_the_end():
        async with run_with_services(f"the channel to {target}", services, state.close):
            channel = Channel(state, pool, tuple(interceptors))
            async with admin_endpoint(served, channel):
                yield channel
    if state.lifecycle.crash is not None:
        raise state.lifecycle.closed_error()


def _check_unset(target: str, why: str, **options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} cannot be used with the target {target!r}, where {why}; leave it out")
