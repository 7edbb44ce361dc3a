"""Runs a plan: the mesh, its clients, and the steps at their times."""

from __future__ import annotations

import math

import trio

from trxds.cli.control_plane import ServedResources
from trxds.testing.simulation.echo_host import Behaviour
from trxds.testing.simulation.simulation import LATENCY, Simulation

from .actions import RehearsalMesh, StepInForce
from .plan import HostBehaviour, Plan
from .record import Record
from .report import Report, make_report
from .traffic import run_client

SAMPLE_INTERVAL = 1.0
"""Seconds between two looks at the calls of each host."""


def rehearse(plan: Plan) -> Report:
    """Run the plan, and return its report. Not in Trio."""
    mesh = Simulation(plan.seed, latency=LATENCY, max_time=math.inf)  # it comes to its end by itself

    async def scenario(mesh: Simulation) -> Report:
        record = await _play(mesh, plan)
        return make_report(plan, record, mesh.traffic.digest)

    return mesh.run(scenario)


async def _play(mesh: Simulation, plan: Plan) -> Record:
    record = Record()
    mesh.network.names.update(plan.names)
    for address in plan.addresses:
        mesh.add_host(address, _behaviour(plan.behaviours.get(address, plan.behaviour)))
    usual = {address: host.behaviour for address, host in mesh.hosts.items()}
    target = RehearsalMesh(mesh, ServedResources(mesh.plane), usual)
    target.replace(plan.resources)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_sample, mesh, plan, record)
        for number in range(1, plan.load.clients + 1):
            nursery.start_soon(run_client, mesh, plan, number, record)
        for step in plan.steps:
            await trio.sleep_until(step.at)
            begun = target.begin(step)
            if step.lasts is not None:
                nursery.start_soon(_end_later, target, begun, step.at + step.lasts)
    return record


async def _end_later(target: RehearsalMesh, begun: StepInForce, at: float) -> None:
    await trio.sleep_until(at)
    await target.end(begun)


async def _sample(mesh: Simulation, plan: Plan, record: Record) -> None:
    """Note how many calls each host has had, each second."""
    number = 0
    while number * SAMPLE_INTERVAL <= plan.end:
        await trio.sleep_until(number * SAMPLE_INTERVAL)
        record.host_calls.append(tuple(mesh.hosts[address].calls for address in plan.addresses))
        number += 1


def _behaviour(of: HostBehaviour) -> Behaviour:
    return Behaviour(of.latency, of.p99, of.error_rate, capacity=of.capacity)
