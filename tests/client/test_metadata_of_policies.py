"""A picker adds metadata to the RPCs that it places: their host gets it behind the caller's."""

from contextlib import asynccontextmanager

import pytest
from support.custom_policies import NAME, Lowest, ToLowest, asks_for
from support.mesh import Mesh, ask, method

from trxds import RpcError, StatusCode
from trxds.policies import Complete, EndpointList, PolicyType


@asynccontextmanager
async def placing(*pairs):
    """A channel whose policy adds these pairs, and the metadata of the calls that its host gets."""

    class Adding(Lowest):
        def pick(self, call):
            return Complete(super().pick(call).host, metadata=pairs)

    class Policy(ToLowest):
        def __init__(self, channel_control):
            self.endpoints = EndpointList(lambda ready: Adding(tuple(each.host for each in ready.values())))
            self.seen = []

    seen = []

    async def handler(call):
        seen.append([pair for pair in call.metadata if pair[0] not in ("te", "user-agent")])
        await call.send(b"")

    async with Mesh.run(1) as mesh:
        asks_for(mesh)
        for server in mesh.servers.values():
            server.fallback = handler
        async with mesh.channel(policies={NAME: PolicyType(Policy)}) as channel:
            yield channel, seen


async def test_the_host_gets_the_pickers_metadata_behind_the_callers(autojump_clock):
    async with placing(("Tier", "gold"), ("trace-bin", b"\0\1")) as (channel, seen):
        await method(channel)(b"", metadata=[("tier", "silver")])
    assert seen == [[("tier", "silver"), ("tier", "gold"), ("trace-bin", b"\0\1")]]


async def test_the_metadata_of_one_pick_is_not_that_of_the_next(autojump_clock):
    async with placing(("tier", "gold")) as (channel, seen):
        await ask(channel)
        await ask(channel)
    assert seen == [[("tier", "gold")]] * 2


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        (("te", "x"), "'te' belongs to the protocol"),
        (("tier", b"gold"), "'tier'"),
        ("gold", "metadata[0] is of type str"),
    ],
)
async def test_metadata_that_cannot_be_sent_fails_its_rpcs_with_internal(pair, why, autojump_clock, caplog):
    async with placing(pair) as (channel, seen):
        with pytest.raises(RpcError, match="metadata that cannot be sent, see the log") as caught:
            await ask(channel)
    assert (caught.value.status.code, seen) == (StatusCode.INTERNAL, [])
    assert why in caplog.text and "gold" not in caplog.text
