"""The ORCA cases: a load balancing policy receives the server's load reports, per call and out of band (A51)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from trxds.client.channel import Channel
from trxds.core.connectivity import Connectivity
from trxds.core.metadata import Metadata
from trxds.core.status import Status
from trxds.policies import (
    CONNECTING,
    ChannelControl,
    Complete,
    Decision,
    PickArgs,
    Picker,
    PickFirstConfig,
    PickResult,
    PolicyInputs,
    PolicyType,
    SubchannelInterface,
)
from trxds.resources.extension import parse
from trxds.resources.orca import report_request
from trxds.resources.protos import OrcaLoadReport

from .cases import expect, service
from .protos import ResponseParameters, SimpleRequest, StreamingOutputCallRequest, TestOrcaReport

POLICY = "test_backend_metrics_load_balancer"
SERVICE_CONFIG: Mapping[str, Any] = {"loadBalancingConfig": [{POLICY: {}}]}

_TRAILER = "endpoint-load-metrics-bin"
_OUT_OF_BAND = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"
_PERIOD = 1.0  # seconds between two reports

_FIRST = {"cpu_utilization": 0.8210, "memory_utilization": 0.5847, "utilization": {"util": 0.30499}}
_SECOND = {"cpu_utilization": 0.29309, "memory_utilization": 0.2, "utilization": {"util": 0.2039}}


@dataclass
class LatestReports:
    """The newest report per call, and the newest out of band."""

    per_call: Any = None
    out_of_band: Any = None
    _changed: trio.Event = field(default_factory=trio.Event)

    @property
    def policies(self) -> Mapping[str, PolicyType]:
        """The value of `open_channel(policies=...)`: the policy that receives the reports."""
        return {POLICY: PolicyType(partial(BackendMetrics, self))}

    def began(self) -> None:
        """Do nothing: the report comes at a call's end."""

    def ended(self, status: Status, trailing: Metadata, now: float) -> None:
        value = trailing.first(_TRAILER)
        if isinstance(value, bytes):
            self.per_call = parse(OrcaLoadReport, value)

    def take(self, message: bytes) -> None:
        self.out_of_band = parse(OrcaLoadReport, message)
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, wanted: Any) -> None:
        """Wait until the newest report out of band is this one."""
        while self.out_of_band != wanted:
            await self._changed.wait()


class BackendMetrics:
    """A policy like pick_first that receives load reports too."""

    def __init__(self, heard: LatestReports, channel_control: ChannelControl) -> None:
        self._heard = heard
        self._listening: dict[str, partial[Any]] = {}
        self._trackers: dict[str, LatestReports] = {}  # for RPCs that sessions send to our hosts

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        child = inputs.children.get("pick_first", CONNECTING)
        ready = {address: host for address, host in inputs.hosts.items() if host.state is Connectivity.READY}
        self._listening = {
            address: self._listening.get(address) or partial(_listen, host, self._heard)
            for address, host in ready.items()
        }
        addresses = tuple(address for endpoint in inputs.endpoints for address in endpoint.addresses)
        if addresses != tuple(self._trackers):
            self._trackers = dict.fromkeys(addresses, self._heard)
        return Decision(
            child.state,
            OrcaListenerPolicy(child.picker, self._heard),
            children={"pick_first": PickFirstConfig()},
            hosts=addresses,
            tasks=self._listening,
            trackers=self._trackers,
        )


async def _listen(host: SubchannelInterface, heard: LatestReports) -> None:
    await host.listen(_OUT_OF_BAND, report_request(_PERIOD), heard.take)


@dataclass(frozen=True)
class OrcaListenerPolicy:
    picker: Picker
    heard: LatestReports

    def pick(self, call: PickArgs) -> PickResult:
        picked = self.picker.pick(call)
        if isinstance(picked, Complete):
            return picked.with_tracker(self.heard)
        return picked


async def orca_per_rpc(channel: Channel, heard: LatestReports) -> None:
    said = {**_FIRST, "request_cost": {"cost": 3456.32}}
    await service(channel).UnaryCall(SimpleRequest(orca_per_query_report=TestOrcaReport(**said)))
    expect(heard.per_call, _report(said), "the report in the trailers")


async def orca_oob(channel: Channel, heard: LatestReports) -> None:
    async with service(channel).FullDuplexCall.open(timeout=30) as call:
        for said in (_FIRST, _SECOND):
            one = [ResponseParameters(size=1)]
            await call.send(StreamingOutputCallRequest(orca_oob_report=TestOrcaReport(**said), response_parameters=one))
            await call.receive()
            await _heard_in_time(heard, _report(said))


async def _heard_in_time(heard: LatestReports, wanted: Any) -> None:
    with trio.move_on_after(10):
        await heard.until(wanted)
    expect(heard.out_of_band, wanted, "the report out of band, after 10 s")


def _report(said: Mapping[str, Any]) -> Any:
    fields = dict(said)
    return OrcaLoadReport(mem_utilization=fields.pop("memory_utilization"), **fields)
