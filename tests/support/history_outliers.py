"""Outlier detection as a topic of random histories (`history_topics.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from .history_topics import Change, Topic


def _ejection_times(draw: Random) -> dict[str, str]:
    time = draw.choice(["300s", "300s", "0.05s"])
    return {"interval": draw.choice(["0.2s", "0.3s"]), "base_ejection_time": time, "max_ejection_time": time}


class Outliers(Topic):
    """Hosts that fail calls, and outlier detection that ejects them and takes them back (A50)."""

    settling = 0.7
    keeps_routes = True  # while they are in error grpcio's policies are gone, and with them what was ejected

    def __init__(self) -> None:
        self._rules: dict[str, dict[str, Any] | None] = {}

    def begin(self, world: Any) -> None:
        for name in world.clusters:
            self._rules[name] = self._draw_rules(world.draw)

    @staticmethod
    def _draw_rules(draw: Random) -> dict[str, Any] | None:
        if draw.random() < 0.25:
            return None
        return {
            **_ejection_times(draw),
            "max_ejection_percent": 100,
            "enforcing_success_rate": 0,
            "enforcing_failure_percentage": draw.choice([100, 100, 100, 0]),
            "failure_percentage_threshold": 60,
            "failure_percentage_minimum_hosts": draw.choice([1, 1, 2, 3]),
            # More than the streams of the history, which end CANCELLED.
            "failure_percentage_request_volume": 4,
        }

    def changes(self) -> Sequence[Change]:
        return [*[self._edit_rules] * 8, *[self._edit_failing] * 12]

    def _edit_rules(self, world: Any) -> str:
        name = world.draw.choice(world.clusters_in_use)
        self._rules[name] = self._draw_rules(world.draw)
        return f"outliers of {name}: {self._rules[name]}"

    def _edit_failing(self, world: Any) -> str:
        host = world.draw.choice(sorted(world.addresses))
        world.failing ^= {host}
        return f"{host} {'fails' if host in world.failing else 'answers'}"

    def cluster(self, name: str, made: dict[str, Any]) -> None:
        if rules := self._rules.get(name):
            made["outlier_detection"] = rules


class SuccessRates(Outliers):
    """Ejection by success rate, and of some hosts at most (A50).

    One host fails at a time, so its rate is below the threshold or not whenever it began to fail, and hosts are ejected
    in the order of the history. In a step either a host changes or rules do, which clusters get at once: a client may
    judge the calls before by the rules after.
    """

    keeps_clusters = True

    def __init__(self) -> None:
        super().__init__()
        self._edited = 0, ""  # the last step that changed one of them, and which

    def begin(self, world: Any) -> None:
        super().begin(world)
        # So that several hosts in turn are outliers.
        for places in world.endpoints.values():
            places |= {host: world.draw_place() for host in world.draw.sample(sorted(world.addresses)[:8], 4)}
            for host, place in places.items():
                places[host] = place._replace(priority=0, health="HEALTHY")

    def changes(self) -> Sequence[Change]:
        return [*[self._edit_rules] * 6, *[self._edit_failing] * 30]

    def _may_edit(self, world: Any, what: str) -> bool:
        step, before = self._edited
        if "first" not in world.planes_up or (step == world.steps and "hosts" in (what, before)):
            return False
        self._edited = world.steps, what
        return True

    def _edit_rules(self, world: Any) -> str:
        return super()._edit_rules(world) if self._may_edit(world, "rules") else ""

    @staticmethod
    def _draw_rules(draw: Random) -> dict[str, Any] | None:
        if draw.random() < 0.15:
            return None
        return {
            **_ejection_times(draw),
            "max_ejection_percent": draw.choice([100, 100, 67, 50, 34, 10]),
            "enforcing_success_rate": draw.choice([100, 100, 100, 0]),
            "success_rate_minimum_hosts": draw.choice([1, 2, 3]),
            "success_rate_request_volume": 4,
            # One host that fails beside others is 1, 1.41 or 1.73 standard deviations below their mean.
            "success_rate_stdev_factor": draw.choice([100, 500, 900, 1_200, 1_600, 1_900]),
        }

    def _edit_failing(self, world: Any) -> str:
        if not self._may_edit(world, "hosts"):
            return ""
        names = sorted({host for name in world.clusters_in_use for host in world.hosts_of(name)} - world.failing)
        host = world.draw.choice([*names, *names, ""])
        world.failing.clear()
        world.failing |= {host} if host else set()
        return f"{host or 'no host'} fails alone"
