"""The control planes of a random history: each client has its own, one or several."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from trxds.testing import ManagementServer, Server
from trxds.testing import resources as xds

from .history_authorities import OTHER, SAME, canonical
from .random_history import HOSTS, SERVICE, Resources, World
from .random_loads import summed

T = TypeVar("T")


class Plane:
    """A control plane for one client. `role` is "first", or what a topic needs it for."""

    def __init__(self, role: str, server: Server, management: ManagementServer, world: World) -> None:
        self.role = role
        self.server = server
        self.management = management
        self.resources: Resources = {}
        self._world = world
        self._asked: tuple[str, ...] = ()

    @property
    def is_up(self) -> bool:
        return self.role in self._world.planes_up

    async def apply(self) -> None:
        """Send what has changed; while the server is down, later."""
        before, self.resources = self.resources, self._its_own(self._world.resources())
        if not self.is_up:
            self.server.stop()
        for kind in ("RDS", "CDS", "EDS") if self.role != "fallback" else ():
            (self.management.withhold if self._world.withheld == kind else self.management.release)(kind)
        if self._asked != self._world.asked:
            self._asked = self._world.asked
            self.management.load.ask(*self._asked, interval=1)
        if changed := [resource for key, resource in self.resources.items() if before.get(key) != resource]:
            self.management.put(*changed)
        for kind, name in before.keys() - self.resources.keys():
            self.management.remove(kind, name)
        if self.is_up and not is_listening(self.server):
            await until_free(self.server.restart)

    def _its_own(self, resources: Resources) -> Resources:
        if self.role == "fallback":
            return {key: self._with_other_hosts(each) for key, each in resources.items()}
        if "authority" in self._world.planes:
            return {key: each for key, each in resources.items() if self._has(key[1])}
        return resources

    def _has(self, name: str) -> bool:
        return name.startswith(f"xdstp://{OTHER}/") == (self.role == "authority")

    def _with_other_hosts(self, value: Any) -> Any:
        """The same with each host of HOSTS in the place of another one."""
        ports = [int(self._world.addresses[host].rpartition(":")[2]) for host in HOSTS]
        match value:
            case dict():
                return {key: self._with_other_hosts(each) for key, each in value.items()}
            case list():
                return [self._with_other_hosts(each) for each in value]
            case int() if value in ports:
                return ports[len(ports) - 1 - ports.index(value)]
        return value

    def __repr__(self) -> str:
        said = [str(each) for each in self.management.requests[-10:]]
        return f"<Plane {self.management.streams} streams, {self.management.responses[-4:]}, {said}>"

    @property
    def progress(self) -> tuple[int, int]:
        return len(self.management.requests), len(self.management.responses)

    @property
    def is_answered(self) -> bool:
        """Whether the client has answered the last response of each kind that it wants, if not those before."""
        responses, requests = self.management.responses, self.management.requests
        stream = max((each.stream for each in responses), default=0)
        wanted = {each.kind: each.names for each in requests if each.stream == stream}
        last = {each.kind: each.nonce for each in responses if each.stream == stream and wanted.get(each.kind)}
        return set(last.values()) <= {each.nonce for each in requests} or not self.management.streams

    @property
    def is_used(self) -> bool:
        """Whether the client has a stream, which it needs always only where the listener is."""
        has_listener = self._has(self._world.name("LDS", SERVICE))
        return bool(self.management.streams) or self.role == "fallback" or not has_listener

    def subscriptions(self) -> Any:
        """What the client subscribes to; of LDS, RDS and CDS also whether it has rejected the last response, if one of
        these resources has a mistake: another one may be let go before or after the response comes.

        Of a fallback server also whether it has a stream, which grpcio ends if it wants nothing from a server.
        """
        if not (self.is_up and self.management.streams):
            return {}
        stream = max((each.stream for each in self.management.requests), default=0)
        requests = [each for each in self.management.requests if each.stream == stream]
        wanted = {each.kind: sorted(each.names) for each in requests}
        last = {each.kind: each.nonce for each in self.management.responses if each.kind != "EDS"}
        rejected = {each.kind for each in requests if each.error and last.get(each.kind) == each.nonce}
        bad = {canonical(self._world.name(*key)) for key in self._world.bad}
        found = {
            kind: (names, kind in rejected and not bad.isdisjoint(names)) for kind, names in wanted.items() if names
        }
        is_kept = "authority" in self._world.planes  # by ours, for an authority of which nothing is wanted any more
        return found if is_kept or "fallback" not in self._world.planes else (found, "has a stream")

    def loads(self, first: int) -> dict[str, dict[Any, Any]]:
        """What the load reports from the `first` on say of each cluster, whichever localities had it."""
        sums = summed(self.management.load.requests[first:], by_zone=False)
        return {name: each for name, each in sums.items() if each}


async def until_free(listen: Callable[[], Awaitable[T]]) -> T:
    """Call `listen` until the listener before has left the address."""
    with trio.fail_after(60):
        while True:
            try:
                return await listen()
            except OSError:
                await trio.sleep(0.001)


def is_listening(server: Server) -> bool:
    return "listening" in repr(server)


def bootstrap(planes: list[Plane], world: World, features: list[str]) -> dict[str, Any]:
    """The bootstrap of a client with these control planes."""
    servers = {plane.role: plane.server.address for plane in planes}
    fallback = [servers["fallback"]] if "fallback" in servers else []
    if "authority" not in servers:
        return xds.bootstrap(servers["first"], *fallback, features=features)
    other = xds.bootstrap(servers["authority"], *fallback, features=features)["xds_servers"]
    return {
        **xds.bootstrap(servers["first"], features=features),
        "authorities": {OTHER: {"xds_servers": other}, SAME: {}},
    }
