"""The xDS client and the pace of its watchers, and responses that are large or none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from itertools import count

import pytest
import trio
from support.world import PLANE, Watcher, World
from trio.testing import MockClock, wait_all_tasks_blocked

from trxds.resources import protos
from trxds.resources.types import CDS
from trxds.testing import Call, resources, serve
from trxds.xds import ads_stream
from trxds.xds.delta import PATH as DELTA_PATH
from trxds.xds.sotw import PATH

pytestmark = pytest.mark.usefixtures("protocol")


async def test_a_response_is_acknowledged_before_its_watchers_have_read_it_and_the_next_one_after(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    slow = Watcher(world.client)
    slow.watch(CDS, "cart")
    async with world.run():
        await world.plane.wait_for_ack("CDS", 1)
        world.plane.put(resources.cluster("cart", idle_timeout=5))
        await trio.sleep(0.5)
        assert world.says()[-1] == "ACK CDS cart"
        await slow.hears()
        await trio.sleep(0.1)
        assert world.says()[-1] == "ACK CDS cart"
        with trio.move_on_after(0.1):
            await slow.hears()
        before = trio.current_time()
        await world.plane.wait_for_ack("CDS", 2)
        assert trio.current_time() == before


async def test_a_watcher_that_does_not_read_holds_up_the_others_once_and_for_a_second(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    stuck = Watcher(world.client)
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        started = trio.current_time()
        stuck.watch(CDS, "cart")
        world.watcher.watch(CDS, "cart")
        for seconds in range(1, 20):
            world.plane.put(resources.cluster("cart", idle_timeout=seconds))
            await world.plane.wait_for_ack("CDS")
        assert trio.current_time() - started == pytest.approx(1.0)
        assert await stuck.hears() == {"cart": world.state("cart")}
    assert [record.getMessage() for record in caplog.records] == [
        "1 watcher read nothing for 1 s; the others go on without them"
    ]


async def test_a_watcher_that_comes_back_is_waited_for_again(autojump_clock: MockClock) -> None:
    world = World()
    sleepy = Watcher(world.client)
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        sleepy.watch(CDS, "cart")
        await trio.sleep(10)
        await sleepy.hears()
        with trio.move_on_after(1):
            await sleepy.hears()
        world.plane.put(resources.cluster("cart", idle_timeout=5))
        await world.plane.wait_for_ack("CDS")
        started = trio.current_time()
        world.plane.put(resources.cluster("cart", idle_timeout=6))
        await world.plane.wait_for_ack("CDS")
        assert trio.current_time() - started == pytest.approx(1.0)


@pytest.mark.parametrize("protocol", ["state of the world"], indirect=True)
async def test_watches_during_a_blocked_send_are_one_request(autojump_clock: MockClock) -> None:
    world = World()
    read, asked = trio.Event(), []

    async def talk(call: Call) -> None:
        await read.wait()
        async for message in call:
            asked.append(set(protos.DiscoveryRequest.FromString(message).resource_names))

    async with serve({PATH: talk}, address=PLANE, network=world.network), world.run(plane=False):
        long = "x" * 1_000_000  # more than the stream's window
        world.watcher.watch(CDS, long)
        for number in range(20):
            await wait_all_tasks_blocked()
            world.watcher.watch(CDS, f"c{number}")
        read.set()
        await wait_all_tasks_blocked()
    assert asked == [{long}, {long, *(f"c{number}" for number in range(20))}]


async def test_a_nack_that_waits_goes_when_its_time_has_come(autojump_clock: MockClock) -> None:
    world = World()
    async with world.run():
        world.watcher.watch(CDS, "cart")
        for seconds in (1, 2):  # the same mistake in other bytes
            world.plane.put({**resources.cluster("cart", idle_timeout=seconds), "lb_policy": "MAGLEV"})
            nack = await world.plane.wait_for_nack("CDS", seconds)
        assert nack.at == pytest.approx(0.1)


async def test_a_long_computation_lets_other_tasks_run_every_few_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    time = count(step=0.001)
    monkeypatch.setattr(ads_stream, "step_clock", lambda: lambda: next(time))
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    def compute() -> Generator[None, None, str]:
        for _ in range(100):
            yield
        return "done"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        assert await ads_stream.run_in_slices(compute()) == "done"
        nursery.cancel_scope.cancel()
    assert 10 < turns < 30


@pytest.mark.parametrize("protocol", ["state of the world"], indirect=True)
async def test_a_message_that_is_no_response_of_a_known_type_is_ignored(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    received: list[bytes] = []

    async def talk(call: Call) -> None:
        await call.send(b"\xff\xff garbage")
        await call.send(b'"\x07unknown')  # a DiscoveryResponse with only a type_url
        async for message in call:
            received.append(message)

    async with serve({PATH: talk}, address=PLANE, network=world.network), world.run(plane=False):
        world.watcher.watch(CDS, "cart")
        await wait_all_tasks_blocked()
        assert len(received) == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"xDS server {PLANE}: 10 bytes that are no DiscoveryResponse; ignored",
        f"xDS server {PLANE}: a response of unknown type 'unknown'; ignored",
    ]


async def test_a_response_of_20_megabytes_is_taken(autojump_clock: MockClock) -> None:
    world = World()
    big = resources.cluster("cart")
    big["alt_stat_name"] = "x" * 20_000_000
    world.plane.put(big)
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")


async def test_the_end_of_run_leaves_no_task_and_no_connection(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.plane.serve(PLANE, world.network):
        await wait_all_tasks_blocked()
        before = trio.lowlevel.current_statistics().tasks_living
        async with world.run(plane=False):
            world.watcher.watch(CDS, "cart")
            await world.plane.wait_for_ack("CDS")
            assert world.plane.streams == 1
        await wait_all_tasks_blocked()
        assert world.plane.streams == 0
        assert trio.lowlevel.current_statistics().tasks_living == before


@pytest.mark.parametrize("protocol", ["state of the world"], indirect=True)
async def test_responses_that_come_together_are_one_message_and_one_ack(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ads_stream, "SLICE_TIME", 60.0)  # which is how long they may take, by the real clock
    world = World()
    answered: list[str] = []

    async def talk(call: Call) -> None:
        await call.receive()
        await call.send_initial_metadata()
        call.outgoing.send_many([response(number) for number in range(1, 51)])
        async for message in call:
            answered.append(protos.DiscoveryRequest.FromString(message).response_nonce)

    def response(number: int) -> bytes:
        cluster = protos.from_json(resources.cluster("cart", idle_timeout=number))
        message = protos.DiscoveryResponse(type_url=CDS.type_url, nonce=f"n{number}", resources=[cluster])
        return bytes(message.SerializeToString())

    reader = Watcher(world.client)
    reader.watch(CDS, "cart")
    async with serve({PATH: talk}, address=PLANE, network=world.network), world.run(plane=False):
        [state] = (await reader.hears()).values()
        assert getattr(state.value, "idle_timeout", None) == 50
        await wait_all_tasks_blocked()
        assert answered == ["n50"]


class DeafServer:
    """It says delta responses with long nonces, one after the other, and reads the answers when it is told to."""

    def __init__(self, responses: int) -> None:
        self.nonces = [f"n{number}-".ljust(2000, "x") for number in range(responses)]
        self.said = 0
        self.streams = 0
        self.call: Call | None = None
        self.reads = trio.Event()
        self.answered: list[str] = []

    async def handle(self, call: Call) -> None:
        self.streams += 1
        self.call = call
        await call.receive()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._say, call)
            await self.reads.wait()
            async for message in call:
                self.answered.append(protos.DeltaDiscoveryRequest.FromString(message).response_nonce)

    async def _say(self, call: Call) -> None:
        for nonce in self.nonces:
            await call.send(protos.DeltaDiscoveryResponse(type_url=CDS.type_url, nonce=nonce).SerializeToString())
            self.said += 1


@pytest.mark.parametrize("protocol", ["delta"], indirect=True)
class TestAServerThatDoesNotReadItsAnswers:
    RESPONSES = 1000

    @pytest.fixture
    async def deaf(
        self, protocol: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[DeafServer]:
        monkeypatch.setattr(ads_stream, "MAX_UNSENT", 50 * 2000)
        world, deaf = World(), DeafServer(self.RESPONSES)
        world.watcher.watch(CDS, "cart")
        async with serve({DELTA_PATH: deaf.handle}, address=PLANE, network=world.network), world.run(plane=False):
            yield deaf

    async def test_a_delta_server_that_does_not_read_its_acks_is_not_read(self, deaf: DeafServer) -> None:
        await wait_all_tasks_blocked()
        assert 50 < deaf.said < self.RESPONSES / 2

    async def test_a_delta_server_that_reads_late_gets_each_ack_once_and_in_order(self, deaf: DeafServer) -> None:
        await wait_all_tasks_blocked()
        deaf.reads.set()
        await wait_all_tasks_blocked()
        assert deaf.answered == deaf.nonces

    async def test_a_stream_that_is_reset_meanwhile_is_followed_by_another(self, deaf: DeafServer) -> None:
        await wait_all_tasks_blocked()
        assert deaf.call is not None
        deaf.call.reset()
        await trio.sleep(5)
        assert deaf.streams > 1
        assert deaf.said < self.RESPONSES, "the streams after it are not read either"
