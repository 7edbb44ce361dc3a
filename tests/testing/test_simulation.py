"""Simulations: the same seed gives the same bytes, and time is simulated."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import pytest
import trio
from support.simulated_shop import HOSTS, add_hosts, call, route

import trxds
from trxds.testing import Simulation
from trxds.testing import resources as xds
from trxds.testing.simulation import network, scheduling


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


def test_trio_is_left_as_it_was(monkeypatch):
    class TriosOwn(Random):
        """Notes the draws of this thread; a Trio of an earlier test may go on in another one."""

        def getrandbits(self, k):
            draws.append(threading.get_ident())
            return super().getrandbits(k)

        def random(self):
            draws.append(threading.get_ident())
            return super().random()

    draws: list[int] = []
    own, switch = TriosOwn(), trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING
    monkeypatch.setattr(trio._core._run, "_r", own)
    Simulation().run(busy_mesh)
    assert trio._core._run._r is own and threading.get_ident() not in draws
    assert trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING is switch


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
