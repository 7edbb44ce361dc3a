"""A channel explains where a call would go without making it."""

import pytest
import trio
from support.mesh import METHOD, Mesh
from trio.testing import wait_all_tasks_blocked

from trxds import RpcError, StatusCode


async def test_a_channel_explains_where_a_call_would_go(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        told = await channel.explain(METHOD)
        assert told.chosen.cluster == "cart"
        assert [use.name for use in told.chosen.filters] == ["stateful_session", "cluster selection", "router"]
        assert all(not server.calls for server in mesh.servers.values())


async def test_an_explanation_uses_the_metadata_for_the_route(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.route(
            {"match": {"prefix": "", "headers": [{"name": "user", "exact_match": "7"}]}, "route": {"cluster": "cart"}}
        )
        async with mesh.channel() as channel:
            assert (await channel.explain(METHOD, [("user", "7")])).chosen
            told = await channel.explain(METHOD, [("user", "8")])
            assert told.passed[0].reason == 'header user has 1 character and does not match (wanted: "7")'
            assert told.refusal.code is StatusCode.UNAVAILABLE


async def test_an_error_of_the_configuration_is_explained(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel("xds:///nobody") as channel:
        assert 'LDS resource "nobody"' in repr(await channel.explain(METHOD))


async def test_a_wait_for_an_explanation_ends_with_the_channel(autojump_clock, nursery):
    async def ask_in_vain(channel):
        with pytest.raises(RpcError, match="channel closed"):
            await channel.explain(METHOD)

    async with Mesh.run(1) as mesh:
        async with mesh.channel("xds:///nobody") as channel:
            nursery.start_soon(ask_in_vain, channel)
            await wait_all_tasks_blocked()
        with pytest.raises(trio.ClosedResourceError):
            await channel.explain(METHOD)
