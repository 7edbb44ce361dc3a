"""Operators see what becomes of all sessions: lines in the log, and events of observers."""

import logging

import trio
from support.mesh import Mesh, ask
from support.sessions import drain, remove
from trio.testing import wait_all_tasks_blocked

from trxds import Observer


class Seen(Observer):
    def __init__(self):
        self.changes = []

    def session_changed(self, changed):
        self.changes.append((changed.session, changed.kind, changed.address, changed.before, changed.reason))


class TestOperating:
    async def test_a_move_is_one_line_in_the_log(self, autojump_clock, caplog):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            caplog.set_level(logging.INFO, "trxds.client")
            old = await ask(session)
            remove(mesh, old)
            await wait_all_tasks_blocked()
            new = await ask(session)
            (line,) = [record.getMessage() for record in caplog.records if "moved" in record.getMessage()]
            assert line.startswith(f"xds:///shop: session 1 moved from {old} to {new} (unknown_host, EDS resource")

    async def test_many_moves_at_once_do_not_fill_the_log(self, autojump_clock, caplog):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:
            caplog.set_level(logging.INFO, "trxds.client")
            leave, hosts = trio.Event(), []

            async def hold():
                async with channel.session() as session:
                    hosts.append(await ask(session))
                    await leave.wait()
                    await ask(session)

            for _ in range(80):
                nursery.start_soon(hold)
            await wait_all_tasks_blocked()
            remove(mesh, hosts[0])
            await wait_all_tasks_blocked()
            leave.set()
            await wait_all_tasks_blocked()
        assert len([record for record in caplog.records if "moved" in record.getMessage()]) == 10

    async def test_a_draining_host_is_one_line_for_all_its_sessions(self, autojump_clock, caplog):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            caplog.set_level(logging.INFO, "trxds.client")
            async with channel.session() as first, channel.session() as second:
                host = await ask(first)
                await ask(second)
                drain(mesh, host)
                await wait_all_tasks_blocked()
        (line,) = [record.getMessage() for record in caplog.records if "DRAINING" in record.getMessage()]
        assert line.startswith(f"xds:///shop: host {host} is DRAINING with 2 sessions (EDS resource")

    async def test_a_host_that_is_removed_is_not_called_draining(self, autojump_clock, caplog):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            caplog.set_level(logging.INFO, "trxds.client")
            remove(mesh, await ask(session))
            await wait_all_tasks_blocked()
        assert not [record for record in caplog.records if "DRAINING" in record.getMessage()]

    async def test_observers_learn_that_a_host_cannot_be_reached(self, autojump_clock):
        seen = Seen()
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            with channel.observed_by(seen):
                mesh.network.refuse(host)
                mesh.network.cut(host)
                await wait_all_tasks_blocked()
        assert seen.changes == [(1, "host_lost", host, "", "not_ready")]

    async def test_observers_get_the_events_of_all_sessions(self, autojump_clock):
        seen = Seen()
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            with channel.observed_by(seen):
                old = await ask(session)
                remove(mesh, old)
                await wait_all_tasks_blocked()
                new = await ask(session)
        assert seen.changes == [
            (1, "pinned", old, "", ""),
            (1, "host_lost", old, "", "unknown_host"),
            (1, "moved", new, old, "unknown_host"),
        ]
