"""No RPC fails because of an update: routes are swapped under traffic as fast as the loop goes (A31)."""

import pytest
import trio
from support.mesh import Mesh, method

from trxds.testing import resources as xds

pytestmark = pytest.mark.slow

SETS = 100  # of two clusters each; a set that comes again is no longer warm
WORKERS = 4
PAUSE = 10  # seconds between two swaps on the clock, jumped over


@pytest.mark.parametrize("swaps", [200, pytest.param(1000, marks=pytest.mark.long)])
async def test_no_rpc_fails_while_routes_are_swapped(mock_clock, swaps):
    """Half of the swaps come before the one before has settled; all go to hosts not yet connected."""
    failures, answers, current = [], 0, []

    async with Mesh.run(2 * SETS, sessions=False) as mesh:
        home = {host: number // 2 for number, host in enumerate(mesh.hosts)}

        def swap(turn):
            number = turn % SETS
            names = [f"c{number}a", f"c{number}b"]
            for name, host in zip(names, mesh.hosts[2 * number : 2 * number + 2], strict=True):
                mesh.cluster(name)
                mesh.endpoints(name, [host])
            mesh.plane.put(xds.routes("routes", xds.route(dict.fromkeys(names, 1))))
            mock_clock.jump(PAUSE)

        swap(0)
        async with mesh.channel() as channel, trio.open_nursery() as traffic:

            def in_force():
                """The set that new RPCs are routed to; each one is noted once, in order."""
                plane = channel._state.data_plane.current
                name = min(plane.selector.table.clusters) if plane else "c0a"
                number = int(name[1:-1])
                if not current or current[-1] != number:
                    current.append(number)
                return len(current) - 1

            async def worker():
                nonlocal answers
                call = method(channel)
                while True:
                    began = in_force()
                    try:
                        host = (await call(b"")).decode()
                    except Exception as error:
                        failures.append(error)
                    else:
                        answers += 1
                        if home[host] not in current[began : in_force() + 1]:
                            failures.append((host, current[began:]))

            async def settled(turn):
                while int(min(channel._state.data_plane.current.selector.table.clusters)[1:-1]) != turn % SETS:
                    await trio.lowlevel.checkpoint()
                    in_force()

            for _ in range(WORKERS):
                traffic.start_soon(worker)
            await method(channel)(b"")
            for turn in range(1, swaps + 1):
                swap(turn)
                if turn % 2:
                    await trio.lowlevel.checkpoint()
                else:
                    await settled(turn)
            traffic.cancel_scope.cancel()
    assert failures == []
    assert answers > swaps
    assert len(current) > swaps / 2
