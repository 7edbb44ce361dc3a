"""Random load reports of hosts below weighted_round_robin (A51, A58, A114), and the share of calls that each gets."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from random import Random
from typing import Any

from trxds.resources import protos
from trxds.testing import resources as xds

from .random_scripts import REPLY, RESPONSE
from .scripted_server import Action, ScriptedServer

HOSTS = 5
CALLS = 400
_POLICY = (
    "type.googleapis.com/envoy.extensions.load_balancing_policies"
    ".client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"
)
_OUT_OF_BAND = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"
_METRICS = ("cpu_utilization", "mem_utilization", "named_metrics.q", "utilization.d", "named_metrics.a.b")


class Case:
    """One cluster, and the load that each of its hosts reports with every call."""

    def __init__(self, draw: Random, number: int, hosts: Sequence[ScriptedServer]) -> None:
        self.number = number
        self._hosts = hosts
        self.config: dict[str, Any] = {"blackout_period": "0s", "weight_update_period": "0.1s"}
        if draw.random() < 0.6:
            self.config["error_utilization_penalty"] = draw.choice([0, 0.5, 1, 2])
        if draw.random() < 0.4:
            self.config["metric_names_for_computing_utilization"] = draw.sample(_METRICS, 2)
        for host in hosts:
            answer = _answer({} if draw.random() < 0.15 else _load(draw))
            host.scripts[f"{number}-warm"] = host.scripts[f"{number}-counted"] = [answer]

    def mesh(self, addresses: Sequence[str]) -> list[Any]:
        name = f"w-{self.number}"
        policy = {"name": "w", "typed_config": {"@type": _POLICY, **self.config}}
        return [
            xds.listener(f"case-{self.number}", routes=f"r-{self.number}"),
            xds.routes(f"r-{self.number}", xds.route(name)),
            xds.cluster(name) | {"load_balancing_policy": {"policies": [{"typed_extension_config": policy}]}},
            xds.endpoints(name, xds.locality(*addresses)),
        ]

    def calls(self) -> list[dict[str, Any]]:
        """Calls until all hosts are connected and have reported, and then those that are counted."""
        made = [self._call("warm", at=0.02 * each) for each in range(30)]
        del made[0]["at"]
        return [*made, self._call("counted", at=2.5), *[self._call("counted")] * (CALLS - 1)]

    def _call(self, moment: str, **more: Any) -> dict[str, Any]:
        return {"path": "/a/b", "metadata": [("x-script", f"{self.number}-{moment}")], **more}

    def shares(self, client: str) -> list[int]:
        """How many of the counted calls each host got."""
        return [len(host.seen[f"{client}:{self.number}-counted"]) for host in self._hosts]


class OutOfBandCase(Case):
    """The same by reports out of band, beside which those of calls do not count."""

    def __init__(self, draw: Random, number: int, hosts: Sequence[ScriptedServer]) -> None:
        super().__init__(draw, number, hosts)
        self.config |= {"enable_oob_load_report": True, "oob_reporting_period": draw.choice(["0.5s", "1s", "20s"])}


def report_out_of_band(draw: Random, host: ScriptedServer) -> None:
    """Have the host report some load to each client that asks for it, or have no such service."""
    report = protos.OrcaLoadReport(**_load(draw)).SerializeToString()
    message = b"\0" + len(report).to_bytes(4, "big") + report
    stream: list[Action] = [("request",), ("headers", RESPONSE), ("data", message), ("sleep", 60)]
    has_none: list[Action] = [("request",), ("end", [*RESPONSE, (b"grpc-status", b"12")])]
    host.scripts[_OUT_OF_BAND] = [has_none if draw.random() < 0.15 else stream]


def _load(draw: Random) -> dict[str, Any]:
    return {
        "rps_fractional": draw.choice([0, 10, 50, 100, 200]),
        "eps": draw.choice([0, 0, 1, 10]),
        "cpu_utilization": draw.choice([0, 0.1, 0.5, 0.9, 1.5]),
        "application_utilization": draw.choice([0, 0, 0.3]),
        "mem_utilization": draw.choice([0, 0.4]),
        "named_metrics": {"q": draw.choice([0, 0.2, 3.0]), "a.b": 0.6},
        "utilization": {"d": 0.7},
    }


def _answer(load: dict[str, Any]) -> list[Action]:
    report = base64.b64encode(protos.OrcaLoadReport(**load).SerializeToString())
    end: Action = ("end", [(b"grpc-status", b"0"), (b"endpoint-load-metrics-bin", report)])
    return [("request",), ("headers", RESPONSE), ("data", REPLY), end]
