"""A session that was imported, pooled, or has no control plane moves like any other."""

import pytest
from support.mesh import Mesh, ask
from support.plain import hosts_in_memory

import trxds
from trxds import SessionMoved


class TestSeams:
    """A session that was imported, pooled, or has no control plane moves like any other."""

    async def test_an_imported_session_moves_after_its_first_call(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            async with channel.session() as session:
                host = await ask(session)
                token = session.export()
            async with channel.session(token) as session:
                with pytest.raises(ValueError, match="not used the cookie since it was imported"):
                    async with session.moving():
                        pass
                assert await ask(session) == host
                async with session.moving() as (old, new):
                    assert old.host == host
                assert await ask(session) == new.host != host

    async def test_a_moved_session_can_be_exported(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            async with channel.session() as session:
                await ask(session)
                async with session.moving() as (_, new):
                    pass
                token = session.export()
            async with channel.session(token) as session:
                assert session.host == await ask(session) == new.host

    async def test_two_blocks_of_a_pooled_session_cannot_move_it_at_a_time(self, autojump_clock):
        async with (
            Mesh.run(3) as mesh,
            mesh.channel() as channel,
            channel.sessions(max=2) as pool,
            pool.session("ann") as one,
            pool.session("ann") as two,
        ):
            await ask(one)
            async with one.moving():
                with pytest.raises(RuntimeError, match="moving already"):
                    async with two.moving():
                        pass

    async def test_the_events_of_a_pooled_session_go_on_after_a_block(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.sessions(max=2) as pool:
            async with pool.session("ann") as session:
                await ask(session)
                events = session.events()
            async with pool.session("ann") as session, session.moving():
                pass
            assert isinstance(await anext(events), SessionMoved)

    async def test_a_session_without_a_control_plane_moves_too(self, autojump_clock):
        async with hosts_in_memory(3) as mesh:
            target = f"ipv4:{','.join(mesh.hosts)}"
            config = {"loadBalancingConfig": [{"round_robin": {}}]}
            async with (
                mesh.channel(target, affinity=trxds.CookieAffinity("cart"), service_config=config) as channel,
                channel.session() as session,
            ):
                host = await ask(session)
                async with session.moving() as (old, new):
                    assert (await ask(old), await ask(new)) == (host, new.host)
                assert await ask(session) == new.host != host
