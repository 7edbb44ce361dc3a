"""The fault filter as a topic of random histories (`history_topics.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from .history_topics import Change, Metadata, Topic

_FAULT = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault"


class Faults(Topic):
    """Fault injection, retry policies and limits of routes (A33, A44, A31); hosts fail as many attempts as told."""

    def __init__(self) -> None:
        self._filter: dict[str, Any] | None = {}
        self._is_first = True
        self._overrides: dict[tuple[str, str], dict[str, Any]] = {}
        self._retries: dict[tuple[str, str], dict[str, Any] | None] = {}
        self._limits: dict[tuple[str, str], dict[str, str]] = {}

    def begin(self, world: Any) -> None:
        for table in world.tables:
            for path in world.tables[table]:
                self._retries[table, path] = self._retry(world.draw)

    @staticmethod
    def _fault(draw: Random) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if draw.random() < 0.4:
            status = {"grpc_status": draw.choice([5, 10, 16])}
            made["abort"] = {
                **draw.choice([status, {"http_status": 503}, {"header_abort": {}}]),
                "percentage": {"numerator": draw.choice([0, 100, 100])},
            }
        if draw.random() < 0.2:
            made["delay"] = {"fixed_delay": "0.001s", "percentage": {"numerator": 100}}
        return made

    @staticmethod
    def _retry(draw: Random) -> dict[str, Any] | None:
        if draw.random() < 0.3:
            return None
        return {
            "retry_on": draw.choice(["unavailable", "unavailable,internal", "internal", "cancelled", "5xx", ""]),
            "num_retries": draw.choice([1, 2, 3]),
            "retry_back_off": {"base_interval": "0.01s", "max_interval": "0.01s"},
        }

    def changes(self) -> Sequence[Change]:
        return [*[self._edit_filter] * 4, *[self._edit_override] * 4, *[self._edit_retry] * 6, *[self._edit_limit] * 2]

    def _edit_filter(self, world: Any) -> str:
        self._filter = world.draw.choice([None, *[self._fault(world.draw)] * 3])
        self._is_first = world.draw.random() < 0.5
        return f"fault filter: {self._filter}, {self._is_first = }"

    @staticmethod
    def _draw_route(world: Any) -> tuple[str, str]:
        return world.table, world.draw.choice(sorted(world.tables[world.table]) or ["none"])

    def _edit_override(self, world: Any) -> str:
        route = self._draw_route(world)
        self._overrides.pop(route, None)
        if world.draw.random() < 0.7:
            self._overrides[route] = self._fault(world.draw)
        return f"fault of {route}: {self._overrides.get(route)}"

    def _edit_retry(self, world: Any) -> str:
        route = self._draw_route(world)
        self._retries[route] = self._retry(world.draw)
        return f"retries of {route}: {self._retries[route]}"

    def _edit_limit(self, world: Any) -> str:
        route = self._draw_route(world)
        self._limits[route] = world.draw.choice([{}, {"max_stream_duration": "0s"}, {"max_stream_duration": "60s"}])
        return f"limits of {route}: {self._limits[route]}"

    def calls(self, draw: Random) -> Sequence[Metadata]:
        failing: Metadata = [
            ("x-fail", str(draw.choice([1, 2, 3]))),
            ("x-code", draw.choice(["UNAVAILABLE", "INTERNAL"])),
        ]
        return [failing, [("x-envoy-fault-abort-grpc-request", "9")]]

    def listener(self, made: dict[str, Any]) -> None:
        if self._filter is not None:
            filters = made["api_listener"]["api_listener"]["http_filters"]
            made_filter = {"name": "fault", "typed_config": {"@type": _FAULT, **self._filter}}
            filters.insert(0 if self._is_first else len(filters) - 1, made_filter)

    def route(self, table: str, path: str, made: dict[str, Any]) -> None:
        if override := self._overrides.get((table, path)):
            made.setdefault("typed_per_filter_config", {})["fault"] = {"@type": _FAULT, **override}
        if retry := self._retries.get((table, path)):
            made["route"]["retry_policy"] = retry
        if limits := self._limits.get((table, path)):
            made["route"]["max_stream_duration"] = limits
