"""Outlier detection ejects failing hosts from one cluster for a while (A50)."""

import trio
from support.mesh import METHOD, Mesh, ask, method

from trxds import RpcError, StatusCode
from trxds.testing import resources as xds

RULES = {
    "interval": "10s",
    "base_ejection_time": "30s",
    "max_ejection_percent": 50,
    "enforcing_success_rate": 0,
    "enforcing_failure_percentage": 100,
    "failure_percentage_threshold": 50,
    "failure_percentage_minimum_hosts": 1,
    "failure_percentage_request_volume": 3,
}


def cluster(name, **rules):
    return {**xds.cluster(name), "outlier_detection": RULES | rules}


async def refuse(call):
    call.abort(StatusCode.UNAVAILABLE, "not me")


def sicken(mesh, address, path=METHOD):
    mesh.servers[address].handlers[path] = refuse


def heal(mesh, address, path=METHOD):
    del mesh.servers[address].handlers[path]


async def met(caller, path=METHOD, **more):
    """Return the hosts of a dozen RPCs; "" for one that failed."""
    answers = set()
    for _ in range(12):
        try:
            answers.add((await method(caller, path)(b"", **more)).decode())
        except RpcError as error:
            assert error.status.message == "not me"
            answers.add("")
    return answers


async def test_a_failing_host_is_ejected_at_the_end_of_the_interval_and_comes_back(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        mesh.plane.put(cluster("cart"))
        sick, *others = mesh.hosts
        sicken(mesh, sick)
        await met(channel)
        await trio.sleep(1)
        assert await met(channel) == {"", *others}
        await trio.sleep(10)
        assert await met(channel) == set(others)
        assert len(mesh.servers[sick].connections) == 1, "its connection stays"
        heal(mesh, sick)
        await trio.sleep(30)
        assert await met(channel) == set(mesh.hosts)
        assert mesh.network.attempts[sick] == 1


async def test_a_host_of_two_clusters_is_ejected_in_the_one_where_it_fails(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        for name in "xy":
            mesh.plane.put(cluster(name))
            mesh.endpoints(name, mesh.hosts)
        mesh.route(xds.route("x", prefix="/x/"), xds.route("y", prefix="/y/"))
        sick, *others = mesh.hosts
        sicken(mesh, sick, "/x/m")
        for path in ("/x/m", "/y/m"):
            await met(channel, path)
        await trio.sleep(11)
        await met(channel, "/x/m")
        await met(channel, "/y/m")
        await trio.sleep(10)
        assert await met(channel, "/x/m") == set(others)
        assert await met(channel, "/y/m") == set(mesh.hosts)


async def test_a_session_stays_on_its_ejected_host(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
        mesh.plane.put(cluster("cart"))
        host = await ask(session)
        sicken(mesh, host)
        await trio.sleep(1)
        await met(channel)
        await trio.sleep(10)
        assert await met(channel) == set(mesh.hosts) - {host}
        assert await met(session) == {""}
        heal(mesh, host)
        assert await met(session) == {host}


async def test_removing_outlier_detection_unejects_all_hosts_at_once(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        mesh.plane.put(cluster("cart"))
        sick, *others = mesh.hosts
        sicken(mesh, sick)
        await met(channel)
        await trio.sleep(1)
        await met(channel)
        await trio.sleep(10)
        assert await met(channel) == set(others)
        mesh.cluster("cart")
        await trio.sleep(1)
        assert await met(channel) == {"", *others}


async def test_outlier_detection_added_by_an_update_reaches_a_running_tree(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        sick, *others = mesh.hosts
        sicken(mesh, sick)
        await met(channel)
        mesh.plane.put(cluster("cart"))
        await trio.sleep(1)
        await met(channel)
        await trio.sleep(11)
        assert await met(channel) == set(others)


async def test_outlier_detection_compares_the_hosts_of_all_priorities(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        near, far = mesh.hosts
        mesh.plane.put(cluster("cart"))
        mesh.endpoints("cart", xds.locality(near, zone="a"), xds.locality(far, zone="b", priority=1))
        sicken(mesh, near)
        await trio.sleep(1)
        assert await met(channel) == {""}
        await trio.sleep(10)
        assert await met(channel) == {far}, "with its only host ejected the first priority has failed"


async def test_a_host_that_never_responds_is_ejected_by_the_deadlines_of_its_rpcs(autojump_clock):
    async def hang(call):
        await trio.sleep_forever()

    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        mesh.plane.put(cluster("cart"))
        silent, *others = mesh.hosts
        mesh.servers[silent].handlers[METHOD] = hang
        late = 0
        for _ in range(30):
            try:
                await ask(channel, timeout=0.1)
            except RpcError as error:
                assert error.status.code is StatusCode.DEADLINE_EXCEEDED
                late += 1
        assert late >= 3
        await trio.sleep(11)
        assert await met(channel) == set(others)
