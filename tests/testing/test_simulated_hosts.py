"""Hosts of a simulation behave as they were told: latency, capacity, errors, and handlers of their own."""

import pytest
import trio
from support.simulated_shop import HOSTS, METHOD, add_hosts, call, route

import trxds
from trxds.testing import Behaviour, Simulation, unary


def test_links_take_their_latency_and_hosts_theirs():
    async def scenario(mesh):
        add_hosts(mesh, HOSTS[0], latency=0.1)
        async with mesh.open_channel("xds:///shop") as channel:
            await call(channel)
            began = trio.current_time()
            await call(channel)
            first = trio.current_time() - began
            mesh.network.slow(HOSTS[0], latency=0.5)
            await call(channel)
        return round(first, 6), round(trio.current_time() - began - first, 6)

    assert Simulation(latency=0.01).run(scenario) == (0.12, 1.1)


def test_a_host_works_on_as_many_calls_as_it_has_capacity_for():
    async def scenario(mesh):
        add_hosts(mesh, HOSTS[0], latency=1.0, capacity=2)
        ended = []

        async def one(channel):
            await call(channel)
            ended.append(round(trio.current_time() - began))

        async with mesh.open_channel("xds:///shop") as channel, trio.open_nursery() as nursery:
            began = trio.current_time()
            for _ in range(5):
                nursery.start_soon(one, channel)
        return ended

    assert Simulation(latency=0.0).run(scenario) == [1, 1, 2, 2, 3]


def test_a_call_that_is_given_up_makes_room_for_another():
    async def scenario(mesh):
        add_hosts(mesh, HOSTS[0], latency=5.0, capacity=1)
        async with mesh.open_channel("xds:///shop") as channel:
            with pytest.raises(trxds.RpcError, match="DEADLINE_EXCEEDED"):
                await call(channel, timeout=1)
            await call(channel)
            return round(trio.current_time())

    assert Simulation(latency=0.0).run(scenario) == 6


def test_a_hosts_errors_have_the_rate_that_was_set():
    async def scenario(mesh):
        add_hosts(mesh, HOSTS[0], error_rate=0.25)
        failed = 0
        async with mesh.open_channel("xds:///shop") as channel:
            for _ in range(200):
                try:
                    await call(channel)
                except trxds.RpcError as error:
                    assert error.status.code is trxds.StatusCode.UNAVAILABLE
                    failed += 1
        return failed

    assert 35 <= Simulation(1).run(scenario) <= 65


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"latency": -1}, "latency -1 is no number of seconds"),
        ({"latency": 2, "p99": 1}, "p99 1 is no number of seconds from the latency, 2"),
        ({"p99": 1}, "needs a latency above 0"),
        ({"error_rate": 2}, "error_rate 2 is not between 0 and 1"),
        ({"capacity": 0}, "capacity 0 is below 1"),
    ],
)
def test_a_behaviour_that_makes_no_sense_is_an_error(wrong, message):
    with pytest.raises(ValueError, match=message):
        Behaviour(**wrong)


def test_messages_larger_than_all_windows_are_echoed():
    async def scenario(mesh):
        add_hosts(mesh, HOSTS[0])
        large = bytes(range(256)) * 4096
        async with mesh.open_channel("xds:///shop") as channel:
            return [await channel.method(METHOD)(large) == large for _ in range(2)]

    assert Simulation().run(scenario) == [True, True]


def test_a_stream_of_messages_is_echoed_one_by_one():
    async def scenario(mesh):
        add_hosts(mesh, HOSTS[0])
        async with mesh.open_channel("xds:///shop") as channel:
            method = channel.method(METHOD, client_streaming=True, server_streaming=True)
            async with method.open() as talk:
                answers = []
                for message in (b"one", b"two"):
                    await talk.send(message)
                    answers.append(await talk.receive())
                talk.done_sending()
                answers.append(await talk.receive())
        return answers

    assert Simulation().run(scenario) == [b"one", b"two", None]


def test_hosts_may_be_coroutines():
    async def slow_cart(request, call):
        await trio.sleep(20)
        return b"added " + request

    async def scenario(mesh):
        server = await mesh.serve(HOSTS[0], {METHOD: unary(slow_cart)})
        route(mesh, HOSTS[0])
        async with mesh.open_channel("xds:///shop") as channel:
            answer = await call(channel)
            large = await channel.method(METHOD)(bytes(300_000))
        return answer, len(large), len(server.calls)

    assert Simulation().run(scenario) == (b"added apples", 300_006, 2)
