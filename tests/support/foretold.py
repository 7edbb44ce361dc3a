"""What `trxds explain` says of a call, and then the call: the two have to agree.

The command asks with a channel of its own, the call is made on another one. What is left to chance, such as whose turn
it is, may differ between two channels; `hosts` are those that chance may choose from.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

import trio
from support.sessions import answer

from trxds import Explanation, RpcError, Status
from trxds.cli.explain import explain_call, has_destination
from trxds.resolver.pick_outcomes import PickDropped, PickedSubchannel, PickFailed, PickQueued


@dataclass(frozen=True)
class Situation:
    """A mesh, and a channel of it whose hosts have had time to connect."""

    mesh: object
    channel: object
    target: str = "xds:///svc"

    async def told(self, method, metadata=(), *, hosts, within=15):
        """The command's explanation of a call that meets a host, one of `hosts`; `within` seconds hosts connect.

        What the channel itself explains is compared with the very host that its next call meets.
        """
        by_command = await self.command(method, metadata, within)
        by_channel = await self.channel.explain(method, metadata)
        met = (await answer(self.channel, path=method, metadata=metadata)).host
        assert met == where(by_channel), str(by_channel)
        assert {met, where(by_command)} <= set(hosts), str(by_command)
        return checked(by_command)

    async def told_by_chance(self, method, metadata=(), *, hosts, times=20):
        """Explanations of a call that draws its way, and so will the call itself: all meet some of `hosts`."""
        explained = [checked(await self.channel.explain(method, metadata)) for _ in range(times)]
        met = {(await answer(self.channel, path=method, metadata=metadata)).host for _ in range(times)}
        assert met | {where(told) for told in explained} <= set(hosts)
        return [await self.command(method, metadata), *explained]

    async def told_it_fails(self, method, metadata=()):
        """The command's explanation of a call that fails, and the call's status."""
        by_command = await self.command(method, metadata)
        by_channel = await self.channel.explain(method, metadata)
        status = await failure(self.channel, method, metadata)
        check_failure(by_channel, status)
        assert isinstance(by_channel.outcome, PickFailed) == await self.waits(method, metadata)
        assert checked(by_command).outcome.status.code is status.code  # its reason may be of its own time
        assert not has_destination(by_command)
        return by_command, status

    async def waits(self, method, metadata) -> bool:
        """Whether a call that waits for ready does so, for a moment at least."""
        with trio.move_on_after(0.01) as moment, suppress(RpcError):
            await self.channel.method(method)(b"", metadata=metadata, wait_for_ready=True)
        return moment.cancelled_caught

    async def command(self, method, metadata=(), within=15):
        bootstrap, network = self.mesh.bootstrap, self.mesh.network
        return await explain_call(self.target, method, metadata, bootstrap, 20, within, network=network)


def checked(told: Explanation) -> Explanation:
    """It says of itself what it says, as a value, as data and as text."""
    data = json.loads(json.dumps(told.as_data()))
    assert (data["outcome"]["kind"], data["host"]) == (type(told.outcome).__name__, told.host)
    assert str(told).splitlines()[-1].endswith(str(told.outcome) if told.refusal is None else str(told.refusal))
    return told


def check_failure(told: Explanation, status: Status) -> None:
    outcome = checked(told).outcome
    assert isinstance(outcome, PickFailed | PickDropped) and not has_destination(told), str(told)
    assert outcome.status.code is status.code
    assert outcome.status.message in status.message, str(told)


def where(told: Explanation) -> str:
    match told.outcome:
        case PickedSubchannel(address) | PickQueued(_, address):
            return address
    return ""


async def failure(channel, method, metadata=()) -> Status:
    with trio.fail_after(60):
        try:
            reply = await answer(channel, path=method, metadata=metadata)
        except RpcError as error:
            return error.status
    raise AssertionError(f"it did not fail, but met {reply.host}")
