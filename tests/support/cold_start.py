"""Tests of a cold start open many sessions at once on a new channel, whose hosts connect after different times."""

from collections import Counter
from dataclasses import dataclass, field

import trio
from support.mesh import ask


def delay_connections(mesh, delays):
    """Have each attempt to connect to a host take so many seconds, by its address, whether it succeeds or fails."""
    connect = mesh.network.connect

    async def connect_later(address):
        await trio.sleep(delays.get(address, 0))
        return await connect(address)

    mesh.network.connect = connect_later


def stagger(mesh, step=0.005):
    """Have the hosts connect one after another, in their order."""
    delay_connections(mesh, {address: step * number for number, address in enumerate(mesh.hosts, 1)})


@dataclass
class Start:
    """The hosts of some sessions, and after how many seconds the first call of each was done."""

    hosts: Counter = field(default_factory=Counter)
    times: list = field(default_factory=list)

    @property
    def took(self):
        """How long the first calls took, in milliseconds: the shortest and the longest."""
        return round(min(self.times) * 1000), round(max(self.times) * 1000)


async def start_sessions(channel, number, **more):
    """Open so many sessions at once, and make one call in each."""
    start = Start()

    async def first_call():
        began = trio.current_time()
        async with channel.session() as session:
            start.hosts[await ask(session, **more)] += 1
            start.times.append(trio.current_time() - began)

    async with trio.open_nursery() as nursery:
        for _ in range(number):
            nursery.start_soon(first_call)
    return start
