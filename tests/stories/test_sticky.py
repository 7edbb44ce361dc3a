"""Sessions stay on their hosts, from ADS bytes to RPCs."""

import trio
from support.mesh import Mesh, ask, spread


async def test_rpcs_without_a_session_are_spread_over_all_hosts(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        await ask(channel)
        await trio.sleep(1)
        assert set(await spread(channel, 30)) == set(mesh.hosts)


async def test_a_session_stays_on_one_host(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
        assert len(await spread(session, 30)) == 1
