"""Simulations: the same seed gives the same bytes, and each fault is what its name says."""

import errno
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio

import trxds
from trxds.testing import Behaviour, Simulation, unary
from trxds.testing import resources as xds
from trxds.testing.simulation import network, scheduling

METHOD = "/shop.Cart/Add"
HOSTS = [f"10.0.1.{number}:50051" for number in range(1, 5)]


def route(mesh, *hosts, **cookie):
    mesh.plane.put(
        xds.listener("shop", routes="r", filters=[xds.stateful_session(**cookie)]),
        xds.routes("r", xds.route("cart")),
        xds.cluster("cart"),
        xds.endpoints("cart", xds.locality(*hosts)),
    )


def add_hosts(mesh, *hosts, **behaviour):
    made = [mesh.add_host(host, Behaviour(**behaviour)) for host in hosts]
    route(mesh, *hosts)
    return made


async def call(caller, **more):
    return await caller.method(METHOD)(b"apples", **more)


async def busy_mesh(mesh):
    """Sessions, other calls, both protocol variants and faults: all that may depend on chance."""
    hosts = add_hosts(mesh, *HOSTS, latency=0.002, p99=0.1, error_rate=0.1)
    names = ["cart", *"abcde"]
    mesh.plane.put(
        xds.routes("r", xds.route(dict.fromkeys(names, 10))),
        *(xds.cluster(name) for name in names),
        *(xds.endpoints(name, xds.locality(*HOSTS)) for name in names),
    )
    moved = []

    async def client(name):
        features = ("xds_v3", "trxds.delta") if name.endswith(("1", "3")) else ("xds_v3",)
        bootstrap = mesh.bootstrap(node=name, features=features)
        async with (
            mesh.open_channel("xds:///shop", client=name, bootstrap=bootstrap) as channel,
            channel.session() as session,
        ):
            random = mesh.random(name)
            for _ in range(10):
                await trio.sleep(random.expovariate(1))
                for caller in (session, channel):
                    try:
                        await call(caller, timeout=3)
                    except trxds.RpcError as error:
                        moved.append((trio.current_time(), str(error)))
            moved.append((name, session.host))

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(client, f"client-{number}")
        await trio.sleep(3)
        hosts[0].kill()
        await trio.sleep(2)
        mesh.plane_server.stop()
        await trio.sleep(1)
        await mesh.plane_server.restart()  # a delta client now says which versions it has
        mesh.plane.put(*(xds.endpoints(name, xds.locality(*HOSTS[1:])) for name in names))
        hosts[2].goaway()
        hosts[3].reset_streams()
    return mesh.traffic.digest, moved


def test_the_same_seed_gives_the_same_bytes_and_another_one_others():
    first, again, other = (Simulation(seed).run(busy_mesh) for seed in (7, 7, 8))
    assert first == again
    assert first != other


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_whatever_the_seed_of_hashes_is():
    program = (
        "from testing.test_simulation import busy_mesh; from trxds.testing import Simulation;"
        "print(Simulation(7).run(busy_mesh))"
    )
    # This process has another seed, so texts and objects have another order in its sets.
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{Simulation(7).run(busy_mesh)}\n"


def test_a_new_delta_stream_has_the_known_versions_in_the_same_order_in_each_process(monkeypatch):
    """Protobuf writes a map in an order that differs from one process to the next, unless it is asked not to."""
    names, sent = [f"cart-{number}" for number in range(10, 40)], []
    monkeypatch.setattr(network.Traffic, "record", lambda self, way, data: sent.append((way, data)))

    async def scenario(mesh):
        add_hosts(mesh, HOSTS[0])
        mesh.plane.put(*map(xds.cluster, names), *(xds.endpoints(name, xds.locality(HOSTS[0])) for name in names))
        mesh.plane.put(xds.routes("r", xds.route(dict.fromkeys(names, 1))))
        bootstrap = mesh.bootstrap(features=("xds_v3", "trxds.delta"))
        async with mesh.open_channel("xds:///shop", bootstrap=bootstrap) as channel:
            await call(channel)
            sent.clear()
            mesh.plane.drop_streams()
            await trio.sleep(5)

    Simulation().run(scenario)
    request = next(
        data for way, data in sent if way == "client > 192.0.2.1:18000" and b"cluster.v3.Cluster\x1a" in data
    )
    versions = re.findall(rb"\x07(cart-\d\d)\x12[\x00\x08]", request)
    assert [name.decode() for name in versions] == names


def test_trio_still_has_its_switch_for_a_deterministic_order():
    order = []

    async def note(name):
        await trio.lowlevel.checkpoint()
        order.append(name)

    async def run():
        async with trio.open_nursery() as nursery:
            for name in "abcdefgh":
                nursery.start_soon(note, name)

    def orders(seed):
        order.clear()
        with scheduling.deterministic_scheduling(seed):
            trio.run(run)
        return tuple(order)

    assert orders("1") == orders("1")
    assert len({orders(str(seed)) for seed in range(9)}) > 1, "the order is still random"


def test_another_scheduler_of_trio_is_an_error(monkeypatch):
    monkeypatch.delattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING")
    with pytest.raises(RuntimeError, match="use a version of it that trxds was tested with"):
        Simulation().run(busy_mesh)


def test_trio_is_left_as_it_was():
    before = trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING, trio._core._run._r.getstate()
    Simulation().run(busy_mesh)
    assert (trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING, trio._core._run._r.getstate()) == before


def test_a_trio_in_another_thread_changes_nothing():
    began, over = threading.Event(), threading.Event()
    passes = []

    async def turn():
        began.set()
        while not over.is_set():
            await trio.lowlevel.checkpoint()
            passes.append(None)

    async def take_turns():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(turn)
            nursery.start_soon(turn)  # the order of one task is not drawn

    def run():
        mesh = Simulation(3)
        mesh.run(busy_mesh)
        return mesh.traffic.digest

    alone = run()
    thread = threading.Thread(target=trio.run, args=(take_turns,))
    thread.start()
    try:
        began.wait()
        count = len(passes)
        beside = run()
        assert len(passes) > count
    finally:
        over.set()
        thread.join()
    assert beside == alone


def test_a_simulation_starts_no_thread(monkeypatch):
    async def resolve_a_name(mesh):
        mesh.add_host("198.18.0.1:50051")
        mesh.network.names["shop.example"] = ["198.18.0.1"]
        async with mesh.open_channel("dns:///shop.example:50051") as channel:
            assert await call(channel) == b"apples"

    def no_threads(self):
        pytest.fail("a thread was started")

    monkeypatch.setattr(threading.Thread, "start", no_threads)
    Simulation().run(resolve_a_name)


def test_an_exception_of_the_scenario_comes_out_as_it_is():
    async def fails(mesh):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Simulation().run(fails)


async def test_a_simulation_in_a_run_of_trio_says_where_it_runs():
    with pytest.raises(RuntimeError, match=r"has a run of Trio of its own; call it in a test that is not async"):
        Simulation().run(trio.sleep)


def test_the_network_of_a_simulation_is_no_network_of_a_channel():
    async def scenario(mesh):
        async with trxds.open_channel("ipv4:10.0.0.2:1", network=mesh.network):
            pytest.fail("it opens")

    with pytest.raises(TypeError, match=r"connect and resolve, such as .*, not <SimulatedNetwork"):
        Simulation().run(scenario)


@pytest.mark.parametrize("address", ["10.0.0.2:50051", "192.0.2.1:18000"])
def test_a_host_at_the_address_of_another_host_or_of_the_control_plane_is_an_error(address):
    async def scenario(mesh):
        mesh.add_host("10.0.0.2:50051")
        with pytest.raises(OSError, match=f"{address}: Address already in use"):
            mesh.add_host(address)
        async with mesh.open_channel("ipv4:10.0.0.2:50051") as channel:
            return await channel.method("/shop.Cart/Add")(b"apples", timeout=1)

    assert Simulation().run(scenario) == b"apples"


def test_a_scenario_that_waits_in_vain_is_given_up():
    async def waits(mesh):
        await trio.sleep_forever()

    with pytest.raises(trio.TooSlowError, match="not ended within 86400 s on its clock, which is max_time"):
        Simulation().run(waits)


# -- time


def test_the_time_of_day_is_simulated_too():
    """A cookie with an age is gone when its time is over on the simulation's clock."""

    async def scenario(mesh):
        hosts = add_hosts(mesh, *HOSTS)
        route(mesh, *HOSTS, ttl=60)
        async with mesh.open_channel("xds:///shop") as channel, channel.session() as session:
            await call(session)
            token = session.export()
            mesh.set_time_of_day_ahead(61)
            async with channel.session(token) as continued:
                hosts_of_token = continued.hosts
        return bool(session.host), dict(hosts_of_token), len(hosts)

    assert Simulation().run(scenario) == (True, {}, 4)


def test_ten_minutes_take_ten_minutes_on_its_clock_only():
    async def scenario(mesh):
        (host,) = add_hosts(mesh, HOSTS[0], latency=600.0)
        async with mesh.open_channel("xds:///shop") as channel:
            await call(channel)
        return trio.current_time(), host.calls

    assert Simulation(latency=0.0).run(scenario) == (600.0, 1)


# -- hosts


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


# -- faults


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
        f"UNAVAILABLE: {HOSTS[0]}: connection lost: [Errno 104] Connection reset by peer",
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
