"""Why a session's RPC meets the host that it meets: the cookie's addresses, judged one by one.

The same rules as the pick of `xds_override_host`, which has no time for words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trxds.config.steps import ToHost
from trxds.ground.connectivity import Connectivity
from trxds.ground.happy_eyeballs import ATTEMPT_DELAY
from trxds.ground.status import Status, unavailable
from trxds.lb.configs import OverrideHostConfig
from trxds.lb.explain import Said, to_fail, to_wait
from trxds.lb.pick import Override
from trxds.lb.ports import Host
from trxds.resources.endpoint import Endpoint, HealthStatus

from .hosts import HostTable

_PREFERENCE = (
    (Connectivity.IDLE, "no host of the session is READY, and this one is connected for it"),
    (Connectivity.CONNECTING, "no host of the session is READY, and this one is on its way"),
    (None, "nobody has connected it yet, so it is connected for the session"),
)


@dataclass(frozen=True, slots=True)
class Judged:
    """One address; `words` say why it cannot be used, or where it stands. `state` None: nobody leases it."""

    address: str
    words: str
    usable: bool = False
    state: Connectivity | None = None

    def __str__(self) -> str:
        return f"{self.address} {self.words}"


def judge(
    address: str,
    table: HostTable,
    config: OverrideHostConfig,
    endpoints: Iterable[Endpoint],
    find: Callable[[str], Host | None],
) -> Judged:
    entry = table.get(address)
    health = entry.health if entry is not None else _health(address, endpoints)
    if health is None:
        return Judged(address, f"is no endpoint of cluster {config.cluster}")
    if entry is None or health not in config.statuses:
        return Judged(address, f"is {health.name}, which override_host_status does not have")
    host = entry.host or find(address)
    if host is None:
        return Judged(address, f"is {health.name}, not connected", usable=True)
    usable = host.state is not Connectivity.TRANSIENT_FAILURE
    return Judged(address, f"is {health.name}, {host.state.name}", usable, host.state)


def _health(address: str, endpoints: Iterable[Endpoint]) -> HealthStatus | None:
    return next((each.health for each in endpoints if address in each.addresses), None)


def chosen(judged: Sequence[Judged], override: Override, otherwise: str) -> Said:
    """The first READY host, else one to wait for; else the child named `otherwise`."""
    saw = "; ".join(map(str, judged))
    ready = next((one for one in judged if one.state is Connectivity.READY and one.usable), None)
    if ready is not None:
        return Said(
            saw, ready.address, "the session's first host that is READY", ToHost(ready.address, Connectivity.READY)
        )
    for state, why in _PREFERENCE:
        for one in judged:
            if one.usable and one.state is state:
                return to_wait(saw, f"{one.address} to connect", why + _next_after(one, judged), one.address)
    if override.strict:
        return to_fail(saw, none_usable(override), "none of the session's hosts can be used, and the session is strict")
    return Said(saw, "what is below it", "none of the session's hosts can be used", otherwise)


def _next_after(waited_for: Judged, judged: Sequence[Judged]) -> str:
    """Who is connected too if that takes long (RFC 8305)."""
    for one in judged:
        if one.usable and one is not waited_for and one.state in (None, Connectivity.IDLE):
            return f"; {one.address} is connected too if that takes more than {ATTEMPT_DELAY * 1000:.0f} ms"
    return ""


def none_usable(override: Override) -> Status:
    return unavailable(f"none of the session's hosts can be used: {', '.join(override.addresses)}")
