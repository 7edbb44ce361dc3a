"""What `open_channel` passes on to the wire: the limit on metadata, and keepalive."""

from __future__ import annotations

import pytest
import trio
from support.mesh import Mesh, ask, method

from trxds import RpcError, StatusCode


async def chatty(call):
    await call.send_initial_metadata([("x-long", "y" * 2000)])
    await call.send(b"")


async def test_headers_above_max_metadata_size_end_their_call_and_name_the_remedy(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(max_metadata_size=1000) as channel:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Chatty"] = chatty
        with pytest.raises(RpcError, match=r"RESOURCE_EXHAUSTED: .* the limit of 1000; raise max_metadata_size"):
            await method(channel, "/shop.Cart/Chatty")(b"")
        await ask(channel)
        assert mesh.network.attempts[mesh.hosts[0]] == 1


async def test_a_host_that_vanished_is_noticed_by_keepalive(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(keepalive_time=30, keepalive_timeout=5) as channel:
        await ask(channel)
        mesh.network.silence(mesh.hosts[0])
        began = trio.current_time()
        with pytest.raises(RpcError) as lost:
            await ask(channel)
        assert lost.value.status.code is StatusCode.UNAVAILABLE and "PING within 5 s" in lost.value.status.message
        assert 35 <= trio.current_time() - began <= 65


@pytest.mark.parametrize(
    "options", [{"keepalive_time": 0}, {"keepalive_time": 30, "keepalive_timeout": 0}, {"max_metadata_size": 0}]
)
async def test_numbers_of_no_sense_are_refused_before_anything_runs(options, autojump_clock):
    async with Mesh.run(1) as mesh:
        with pytest.raises(ValueError, match=r"keepalive|max_metadata_size"):
            async with mesh.channel(**options):
                pass
        assert not mesh.network.attempts
