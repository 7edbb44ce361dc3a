"""Faults of a simulation: each is what its name says."""

import errno

import pytest
import trio
from support.simulated_shop import HOSTS, add_hosts, call, route

import trxds
from trxds.testing import Behaviour, Simulation


def outcome_of(fault, **behaviour):
    """What a call that is under way sees of a fault of its host."""

    async def scenario(mesh):
        (host,) = add_hosts(mesh, HOSTS[0], **({"latency": 2.0} | behaviour))
        async with mesh.open_channel("xds:///shop") as channel, trio.open_nursery() as nursery:
            seen = []

            async def one():
                try:
                    seen.append(await call(channel, timeout=30))
                except trxds.RpcError as error:
                    seen.append(str(error))

            nursery.start_soon(one)
            await trio.sleep(1)
            await fault(mesh, host)
        return seen[0], round(trio.current_time())

    return Simulation(latency=0.0).run(scenario)


def fault(function):
    async def run(mesh, host):
        function(mesh, host)

    return run


def test_a_host_that_is_killed_resets_its_connections():
    assert outcome_of(fault(lambda mesh, host: host.kill())) == (
        f"UNAVAILABLE: {HOSTS[0]}: connection lost: Connection reset by peer",
        1,
    )


def test_a_host_that_is_killed_gives_up_the_calls_that_wait_for_others():
    async def scenario(mesh):
        (host,) = add_hosts(mesh, HOSTS[0], latency=5.0, capacity=1)
        ended = []

        async def one(channel):
            with pytest.raises(trxds.RpcError, match="UNAVAILABLE") as caught:
                await call(channel)
            ended.append(str(caught.value))

        async with mesh.open_channel("xds:///shop") as channel, trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(one, channel)
            await trio.sleep(1)
            host.behaviour = Behaviour()  # it would answer those that wait at once
            host.kill()
        return ended

    assert len(Simulation(latency=0.0).run(scenario)) == 3


def test_a_host_learns_of_a_half_open_connection_that_its_client_has_left_by_a_reset():
    async def scenario(mesh):
        (host,) = add_hosts(mesh, HOSTS[0])
        async with mesh.open_channel("xds:///shop") as channel:
            await call(channel)
            mesh.network.half_open(host.address)
        lost = mesh.network.has_half_open(host.address), repr(host)
        mesh.network.reset(host.address)
        return *lost, mesh.network.has_half_open(host.address), repr(host)

    before, after = (f"<EchoHost {HOSTS[0]} {number} connections, 1 calls>" for number in (1, 0))
    assert Simulation(latency=0.0).run(scenario) == (True, before, False, after)


def test_of_a_host_that_vanishes_nobody_is_told():
    message, at = outcome_of(fault(lambda mesh, host: host.vanish()))
    assert message.startswith("DEADLINE_EXCEEDED") and at == 30


def test_a_half_open_connection_loses_what_is_sent():
    message, at = outcome_of(fault(lambda mesh, host: mesh.network.half_open(host.address)))
    assert message.startswith("DEADLINE_EXCEEDED") and at == 30


def test_after_a_partition_the_bytes_arrive():
    async def partition(mesh, host):
        mesh.network.partition(host.address)
        await trio.sleep(9)
        mesh.network.heal(host.address)

    assert outcome_of(partition) == (b"apples", 10)


def test_a_partition_may_be_between_one_client_and_a_host():
    async def partition(mesh, host):
        mesh.network.partition(host.address, client="somebody else")

    assert outcome_of(partition) == (b"apples", 2)


def test_a_goaway_lets_calls_end():
    assert outcome_of(fault(lambda mesh, host: host.goaway())) == (b"apples", 2)


def test_a_call_that_crosses_a_goaway_is_made_on_a_new_connection():
    """The host ignores it, as RFC 9113 §6.8 says, so the client may send it again (A6)."""

    async def scenario(mesh):
        (host,) = add_hosts(mesh, HOSTS[0])
        async with mesh.open_channel("xds:///shop") as channel:
            await call(channel)
            host.goaway()  # on its way for half a second
            reply = await call(channel, timeout=10)
        return reply, host.calls, mesh.network.traffic.attempts[HOSTS[0]]

    assert Simulation(latency=0.5).run(scenario) == (b"apples", 2, 2)


def test_a_reset_stream_fails_its_call_alone():
    message, at = outcome_of(fault(lambda mesh, host: host.reset_streams()))
    assert "INTERNAL_ERROR" in message and at == 1


def test_without_file_descriptors_nobody_connects():
    async def scenario(mesh):
        add_hosts(mesh, HOSTS[0])
        mesh.network.fail_connections(HOSTS[0], error=errno.EMFILE)
        async with mesh.open_channel("xds:///shop") as channel:
            with pytest.raises(trxds.RpcError, match="Too many open files"):
                await call(channel)
            mesh.network.heal(HOSTS[0])
            return await call(channel, wait_for_ready=True)

    assert Simulation().run(scenario) == b"apples"


def test_a_host_that_comes_back_is_used_again():
    async def scenario(mesh):
        (host,) = add_hosts(mesh, HOSTS[0])
        async with mesh.open_channel("xds:///shop") as channel:
            await call(channel)
            host.vanish()
            await trio.sleep(5)
            host.start()
            await trio.sleep(1)  # the client notices that its connection is broken, and connects anew
            return await call(channel, timeout=1)

    assert Simulation().run(scenario) == b"apples"


def test_connections_that_a_server_has_not_accepted_are_reset_with_its_end():
    async def scenario(mesh):
        listener = mesh.network.listen(HOSTS[0])
        stream = await mesh.network.of("client").connect(HOSTS[0])
        await listener.aclose()
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
        with pytest.raises(ConnectionRefusedError):
            await mesh.network.of("client").connect(HOSTS[0])

    Simulation().run(scenario)


def test_an_address_is_listened_at_once_only():
    async def scenario(mesh):
        mesh.add_host(HOSTS[0])
        with pytest.raises(OSError, match="Address already in use"):
            mesh.network.listen(HOSTS[0])

    Simulation().run(scenario)


def test_a_dead_control_plane_changes_nothing_until_it_is_back():
    async def scenario(mesh):
        hosts = add_hosts(mesh, *HOSTS[:2])
        async with mesh.open_channel("xds:///shop") as channel:
            await call(channel)
            mesh.plane_server.stop()
            route(mesh, HOSTS[0])
            for _ in range(10):
                await call(channel)
            while_dead = hosts[1].calls
            await mesh.plane_server.restart()
            await trio.sleep(5)
            before = hosts[1].calls
            for _ in range(10):
                await call(channel)
            return while_dead > 3, hosts[1].calls - before

    assert Simulation().run(scenario) == (True, 0)


def test_a_host_that_says_not_serving_gets_no_calls_of_a_client_that_asks():
    async def scenario(mesh):
        hosts = [mesh.add_host(host) for host in HOSTS[:2]]
        config = {"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": "cart"}}
        target = f"ipv4:{','.join(HOSTS[:2])}"
        async with mesh.open_channel(target, service_config=config) as channel:

            async def spread():
                await trio.sleep(1)
                before = [host.calls for host in hosts]
                for _ in range(4):
                    await call(channel, timeout=1)
                return [host.calls - each for host, each in zip(hosts, before, strict=True)]

            both = await spread()
            hosts[0].is_serving = False
            one = await spread()
            hosts[0].is_serving = True
            return both, one, await spread()

    assert Simulation().run(scenario) == ([2, 2], [0, 4], [2, 2])


def test_what_a_client_sends_in_a_partition_comes_after_it_though_the_client_has_closed_the_connection():
    async def scenario(mesh):
        add_hosts(mesh, HOSTS[0])
        async with mesh.open_channel("xds:///shop") as channel:
            await call(channel)
            mesh.network.partition()
        before = mesh.plane.streams
        await trio.sleep(100)
        during = mesh.plane.streams
        mesh.network.heal()
        await trio.sleep(1)
        return before, during, mesh.plane.streams

    assert Simulation().run(scenario) == (1, 1, 0)
