"""Random rules of outlier detection (A50), hosts that fail as often as drawn, and who gets calls afterwards.

All hosts get connected in the first interval, and are judged by their calls in the second one. So a host that is to be
ejected is ejected at its end, and comes back with one of the next ends, or later.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from trxds.testing import resources as xds

from .random_scripts import REPLY_AND_OK, RESPONSE
from .scripted_server import ScriptedServer
from .two_clients import Outcome

HOSTS = 5
_INTERVAL = 4
_CALLS = 6  # to each host, in the second interval
_JUDGED = _INTERVAL + 0.6
_WARM = 10  # calls before those
_AFTER = {f"end {number}": number * _INTERVAL + 0.9 for number in (2, 3, 4)}


class Case:
    """One cluster with its rules, and the answers of its hosts."""

    def __init__(self, draw: Random, number: int, hosts: Sequence[ScriptedServer]) -> None:
        self.number = number
        self.rules = _rules(draw)
        self._hosts = hosts
        for host in hosts:
            failures = draw.choice([0, 0, 0, 1, 2, 3, 4, 5, 6])
            codes = [draw.choice([b"14", b"13", b"5", b"1"]) for _ in range(failures)]
            fail = [[("request",), ("end", [*RESPONSE, (b"grpc-status", code)])] for code in codes]
            host.scripts[f"{number}-judged"] = [*fail, *[REPLY_AND_OK] * (_CALLS - failures)]
            for moment in ("warm", *_AFTER):
                host.scripts[f"{number}-{moment}"] = [REPLY_AND_OK]

    def mesh(self, addresses: Sequence[str]) -> list[Any]:
        name = f"c-{self.number}"
        return [
            xds.listener(f"case-{self.number}", routes=f"r-{self.number}"),
            xds.routes(f"r-{self.number}", xds.route(name)),
            xds.cluster(name) | {"outlier_detection": self.rules},
            xds.endpoints(name, xds.locality(*addresses)),
        ]

    def calls(self) -> list[dict[str, Any]]:
        """Calls until all hosts are connected, then those that are judged, and a few after each interval."""
        made = [self._call("warm", at=0.02 * each) for each in range(_WARM)]
        del made[0]["at"]
        made += [self._call("judged", at=_JUDGED) for _ in range(_CALLS * HOSTS)]
        return made + [self._call(moment, at=at) for moment, at in _AFTER.items() for _ in range(2 * HOSTS)]

    def _call(self, moment: str, **more: Any) -> dict[str, Any]:
        return {"path": "/a/b", "metadata": [("x-script", f"{self.number}-{moment}")], **more}

    def was_in_time(self, client: str, outcomes: Sequence[Outcome]) -> bool:
        """Whether the calls were over well before the interval, and each host got its share: not on a busy machine."""
        judged = [len(host.seen[f"{client}:{self.number}-judged"]) for host in self._hosts]
        seconds = [sum(each.seconds for each in some) for some in _periods(outcomes)]
        return judged == [_CALLS] * HOSTS and max(seconds) < 0.6 * _INTERVAL

    def ejected(self, client: str) -> list[Any]:
        """The hosts that got no calls after each interval; how many, if only some outliers may be ejected."""
        without = [
            [each for each, host in enumerate(self._hosts) if not host.seen[f"{client}:{self.number}-{moment}"]]
            for moment in _AFTER
        ]
        return without if self.rules["max_ejection_percent"] == 100 else [len(hosts) for hosts in without]


def _periods(outcomes: Sequence[Outcome]) -> list[Sequence[Outcome]]:
    """The outcomes without the first one, by the interval in which their calls are to be over."""
    judged, after = _WARM + _CALLS * HOSTS, 2 * HOSTS
    later = [outcomes[judged + after * each : judged + after * (each + 1)] for each in range(len(_AFTER))]
    return [outcomes[1:_WARM], outcomes[_WARM:judged], *later]


def _rules(draw: Random) -> dict[str, Any]:
    rules = {
        "interval": f"{_INTERVAL}s",
        "base_ejection_time": draw.choice(["3s", "7s", "11s"]),
        "max_ejection_time": draw.choice(["3s", "300s"]),
        "max_ejection_percent": draw.choice([100, 100, 100, 50, 33, 10, 0]),
        "enforcing_success_rate": draw.choice([100, 100, 0]),
        "success_rate_minimum_hosts": draw.choice([1, 3, 4, 5, 6]),
        "success_rate_request_volume": draw.choice([3, 5, 6, 7]),
        "success_rate_stdev_factor": draw.choice([0, 300, 500, 1_000, 1_500, 1_900]),
    }
    if draw.random() < 0.6:
        rules |= {
            "enforcing_failure_percentage": 100,
            "failure_percentage_threshold": draw.choice([0, 10, 16, 17, 33, 50, 66, 85, 99, 100]),
            "failure_percentage_minimum_hosts": draw.choice([1, 4, 5, 6]),
            "failure_percentage_request_volume": draw.choice([3, 6, 7]),
        }
    return rules
