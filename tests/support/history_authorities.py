"""Names of other authorities as a topic of random histories (`history_topics.py`)."""

from __future__ import annotations

from typing import Any

from .history_topics import Topic

OTHER, SAME = "other", "same"
_TYPES = {
    "LDS": "envoy.config.listener.v3.Listener",
    "RDS": "envoy.config.route.v3.RouteConfiguration",
    "CDS": "envoy.config.cluster.v3.Cluster",
    "EDS": "envoy.config.endpoint.v3.ClusterLoadAssignment",
}


class Authority(Topic):
    """Names of an authority that has a server of its own, and of one that has not (A47)."""

    planes = ("authority",)

    def __init__(self) -> None:
        self._authorities: dict[tuple[str, str], str] = {}
        self._query: dict[tuple[str, str], str] = {}

    def begin(self, world: Any) -> None:
        share = world.draw.choice([0.3, 0.5, 1])
        names = [("LDS", "shop"), *(("RDS", table) for table in world.tables)]
        names += [("CDS", name) for name in world.clusters] + [("EDS", service) for service in world.endpoints]
        for name in names:
            if world.draw.random() < share:
                self._authorities[name] = world.draw.choice([OTHER, OTHER, SAME]) if name[0] != "LDS" else OTHER
                several = "?b=2&a=1" if world.peer.sorts_context_parameters else "?a=1&b=2"
                self._query[name] = world.draw.choice(["", "", "?a=1", several]) if name[0] != "LDS" else ""
        # At one server, because grpcio does not take its subscription of the routes before back at another one.
        if authority := self._authorities.get(("RDS", "r0")):
            self._authorities["RDS", "r1"], self._query["RDS", "r1"] = authority, ""
        else:
            self._authorities.pop(("RDS", "r1"), None)

    def name(self, kind: str, name: str) -> str:
        if authority := self._authorities.get((kind, name)):
            return f"xdstp://{authority}/{_TYPES[kind]}/{name}{self._query[kind, name]}"
        return name


def canonical(name: str) -> str:
    """The name as it is the resource's own, and subscribed to: context parameters are in order."""
    path, question, query = name.partition("?")
    return path + question + "&".join(sorted(query.split("&")))
