"""A program's own resolver finds the hosts of a target: its updates, its failures, and its lifetime."""

import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise

import pytest
import trio
from support.cancelling import wait_and_fail_when_cancelled
from support.mesh import ask, spread
from support.plain import hosts_in_memory
from support.resolvers import ROUND_ROBIN, TARGET, Feed, settled
from support.tasks import task_names

import trxds
from trxds import Connectivity, RpcError, StatusCode
from trxds.policies import Complete, EndpointList, PolicyType
from trxds.resolvers import Endpoint, HealthStatus, ResolverUpdate
from trxds.testing.network import MemoryNetwork


@asynccontextmanager
async def resolved(feed, count=3, *, target=TARGET, **options):
    options = {"service_config": ROUND_ROBIN} | options
    resolvers = {"my": getattr(feed, "resolve", feed)}
    async with hosts_in_memory(count) as mesh, mesh.channel(target, resolvers=resolvers, **options) as channel:
        yield mesh, channel


async def failure(channel, **more):
    with pytest.raises(RpcError) as failed:
        await ask(channel, **more)
    return failed.value.status


# -- updates


async def test_calls_go_to_the_endpoints_of_the_update(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(*mesh.hosts[:2])
        await ask(channel)
        await settled()
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts[:2], 2)


async def test_calls_wait_for_the_first_update_and_their_deadline_error_names_it(autojump_clock):
    async with resolved(Feed()) as (_, channel):
        status = await failure(channel, timeout=3)
        assert channel.state is Connectivity.CONNECTING
    assert status.code is StatusCode.DEADLINE_EXCEEDED
    assert "waiting for the first update of the resolver of my:///cart" in status.message


async def test_an_endpoint_that_names_its_one_address_twice_fails_with_it(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (_, channel):
        feed.push(Endpoint(("10.0.9.9:1", "10.0.9.9:1")))
        status = await failure(channel, timeout=300)
        assert trio.current_time() < 1
    assert status.code is StatusCode.UNAVAILABLE


async def test_a_later_update_replaces_the_list_and_keeps_the_connections_of_hosts_that_stay(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(*mesh.hosts[:2])
        await ask(channel)
        await settled()
        feed.push(*mesh.hosts[1:])
        await settled()
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts[1:], 2)
        assert mesh.network.attempts[mesh.hosts[1]] == 1


async def test_an_endpoint_with_several_addresses_is_one_host(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(Endpoint((mesh.hosts[0], mesh.hosts[1])), Endpoint((mesh.hosts[2],)))
        await ask(channel)
        await settled()
        assert await spread(channel, 4) == {mesh.hosts[0]: 2, mesh.hosts[2]: 2}


async def test_a_weight_is_an_endpoints_share_of_a_policy_that_reads_weights(autojump_clock):
    feed = Feed()
    config = {"loadBalancingConfig": [{"ring_hash_experimental": {}}]}
    async with resolved(feed, service_config=config) as (mesh, channel):
        feed.push(Endpoint((mesh.hosts[0],), weight=9), Endpoint((mesh.hosts[1],), weight=1))
        await ask(channel)
        await settled()
        for _ in range(9):  # of a ring without a hash header each call has a random hash, and connects its host
            await ask(channel)
        met = await spread(channel, 80)
        # Nine to one on average; with equal weights they would be even.
        assert met[mesh.hosts[0]] > 2 * met[mesh.hosts[1]]


async def test_attributes_reach_a_custom_policy(autojump_clock):
    class Zoned:
        def __init__(self, control):
            self._first = EndpointList(lambda ready: First(next(iter(ready.values())).host))

        def decide(self, inputs, now):
            seen.append([endpoint.attributes.get("zone") for endpoint in inputs.endpoints])
            return self._first.decide(inputs, now)

    @dataclass(frozen=True)
    class First:
        host: object

        def pick(self, call):
            return Complete(self.host)

    seen: list[list[str]] = []
    feed = Feed()
    config = {"loadBalancingConfig": [{"zoned": {}}]}
    async with resolved(feed, service_config=config, policies={"zoned": PolicyType(Zoned)}) as (mesh, channel):
        feed.push(Endpoint((mesh.hosts[0],), attributes={"zone": "a"}))
        await ask(channel)
        feed.push(Endpoint((mesh.hosts[0],), attributes={"zone": "b"}))
        await settled()
    assert seen[0] == ["a"]
    assert seen[-1] == ["b"]


async def test_of_endpoints_that_share_an_address_the_first_counts(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(mesh.hosts[0], mesh.hosts[1], Endpoint((mesh.hosts[0],), health=HealthStatus.DRAINING))
        await ask(channel)
        await settled()
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts[:2], 2)


async def test_a_draining_endpoint_gets_no_calls(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(mesh.hosts[0], Endpoint((mesh.hosts[1],), health=HealthStatus.DRAINING))
        await ask(channel)
        await settled()
        assert await spread(channel, 4) == {mesh.hosts[0]: 4}


@pytest.mark.parametrize(
    ("note", "text"),
    [("", "target my:///cart: its resolver has no endpoints"), ("scaled to 0", "has no endpoints: scaled to 0")],
)
async def test_an_empty_list_fails_calls_and_says_why(autojump_clock, note, text):
    feed = Feed(ResolverUpdate([], note=note))
    async with resolved(feed) as (_, channel):
        status = await failure(channel)
        assert channel.state is Connectivity.TRANSIENT_FAILURE
    assert status.code is StatusCode.UNAVAILABLE
    assert text in status.message


async def test_a_list_of_draining_endpoints_fails_calls_and_says_so(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(Endpoint((mesh.hosts[0],), health=HealthStatus.DRAINING))
        status = await failure(channel)
    assert "all endpoints of its resolver are DRAINING" in status.message


async def test_a_call_that_waits_for_ready_waits_for_a_list_that_is_not_empty(autojump_clock):
    feed = Feed(ResolverUpdate([]))
    async with resolved(feed) as (mesh, channel), trio.open_nursery() as nursery:
        found = []

        async def wait():
            found.append(await ask(channel, wait_for_ready=True))

        nursery.start_soon(wait)
        await trio.sleep(20)
        assert not found
        feed.push(mesh.hosts[0])
        await settled()
        assert found == [mesh.hosts[0]]


# -- failures


async def test_a_resolver_that_raises_first_fails_calls_with_its_message(autojump_clock):
    async with resolved(Feed(OSError("registry is down"))) as (_, channel):
        status = await failure(channel)
    assert status.code is StatusCode.UNAVAILABLE
    assert "target my:///cart cannot be resolved: OSError: registry is down" in status.message


async def test_the_status_of_an_rpc_of_a_resolver_never_becomes_that_of_calls(autojump_clock):
    refused = RpcError(trxds.Status(StatusCode.PERMISSION_DENIED, "no token"))
    async with resolved(Feed(refused)) as (_, channel):
        status = await failure(channel)
    assert status.code is StatusCode.UNAVAILABLE
    assert "PERMISSION_DENIED: no token" in status.message


async def test_after_an_exception_the_last_good_update_stays_in_force(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(*mesh.hosts[:2])
        await ask(channel)
        feed.push(OSError("registry is down"))
        await trio.sleep(30)
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts[:2], 2)


async def test_a_resolver_that_raises_is_started_again_after_a_backoff(autojump_clock):
    async def failing(args):
        starts.append(trio.current_time())
        raise OSError("registry is down")
        yield

    starts: list[float] = []
    async with resolved(failing):
        await trio.sleep(30)
    delays = [after - before for before, after in pairwise(starts)]
    assert 0.8 <= delays[0] <= 1.2
    assert 1.28 <= delays[1] <= 1.92
    assert len(starts) <= 9


async def test_a_new_start_that_yields_is_in_force_and_ends_the_backoff(autojump_clock):
    feed = Feed(OSError("registry is down"), OSError("registry is down"))
    async with resolved(feed) as (mesh, channel):
        await trio.sleep(10)
        feed.push(mesh.hosts[0])
        assert await ask(channel, wait_for_ready=True) == mesh.hosts[0]
        feed.push(OSError("down again"))
        feed.push(mesh.hosts[1])
        await trio.sleep(2)
        assert await spread(channel, 2) == {mesh.hosts[1]: 2}


async def test_the_error_of_a_nursery_inside_a_resolver_is_named_and_not_its_group(autojump_clock):
    @asynccontextmanager
    async def watching(args):
        async with trio.open_nursery() as nursery:
            _, receive = trio.open_memory_channel(0)
            nursery.start_soon(broken)
            yield receive

    async def broken():
        raise OSError("stream broke")

    async with resolved(watching) as (_, channel):
        status = await failure(channel)
    assert "cannot be resolved: OSError: stream broke" in status.message


async def test_a_bug_of_a_resolver_is_logged_once_with_its_traceback(autojump_clock, caplog):
    async def buggy(args):
        raise KeyError("name")
        yield

    async with resolved(buggy):
        await trio.sleep(30)
    raised = [record for record in caplog.records if record.exc_info]
    assert [record.message for record in raised] == ["my:///cart: its resolver raised"]
    assert all(record.name == "trxds.resolver" and record.levelno == logging.WARNING for record in raised)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda args: None, "the resolver returned None, which is no async iterator"),
        (lambda args: no_generator(), "the resolver is an `async def` without `yield`"),
    ],
)
async def test_a_function_that_returns_no_iterator_fails_calls_with_the_remedy(autojump_clock, wrong, text):
    async with resolved(wrong) as (_, channel):
        assert text in (await failure(channel)).message


async def no_generator():
    return ResolverUpdate([])


async def test_another_value_than_an_update_fails_calls_with_the_remedy(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (_, channel):
        feed.push(["10.0.0.1:443"])
        assert "yield a trxds.resolvers.ResolverUpdate" in (await failure(channel)).message


async def test_a_present_failure_is_among_the_warnings_of_explain(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(mesh.hosts[0])
        await ask(channel)
        feed.push(OSError("registry is down"))
        await settled()
        assert "registry is down" in warnings_of(channel)[0]
        feed.push(mesh.hosts[0])
        await trio.sleep(3)
        assert not warnings_of(channel)


def warnings_of(channel):
    return channel.admin_view().warnings


# -- its end, and the next resolution


async def test_after_its_end_the_last_update_stays_in_force(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(mesh.hosts[0])
        feed.end()
        await trio.sleep(300)
        assert await ask(channel) == mesh.hosts[0]
        assert feed.seen["begun"] == 1


async def test_after_the_end_of_an_iterator_in_a_context_manager_the_last_update_stays_in_force(autojump_clock, caplog):
    @asynccontextmanager
    async def finite(args):
        send, receive = trio.open_memory_channel(1)
        send.send_nowait(ResolverUpdate(hosts))
        send.close()
        yield receive

    hosts: list[str] = []
    async with resolved(finite) as (mesh, channel):
        hosts.extend(mesh.hosts)
        await trio.sleep(30)
        assert await ask(channel) in mesh.hosts
        assert caplog.messages == []


async def test_an_end_without_an_update_is_a_failure(autojump_clock):
    feed = Feed()
    feed.end()
    async with resolved(feed) as (_, channel):
        status = await failure(channel)
        assert "its resolver ended without an update" in status.message
        await trio.sleep(3)
        assert feed.seen["begun"] == 2


async def test_a_resolver_that_has_ended_is_started_again_when_a_host_is_lost(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(mesh.hosts[0])
        feed.end()
        await ask(channel)
        await trio.sleep(100)
        feed.push(mesh.hosts[1])
        mesh.fail(mesh.hosts[0])
        await settled()
        assert await ask(channel, wait_for_ready=True) == mesh.hosts[1]


async def test_a_lost_host_requests_a_resolution_at_most_every_30_seconds(autojump_clock):
    polls: list[float] = []

    async def poll(args):
        while True:
            polls.append(trio.current_time())
            yield ResolverUpdate(mesh_hosts)
            await args.wait_for_resolve_now()

    mesh_hosts: list[str] = []
    async with hosts_in_memory(2) as mesh:
        mesh_hosts.extend(mesh.hosts)
        async with mesh.channel(TARGET, resolvers={"my": poll}, service_config=ROUND_ROBIN) as channel:
            began = trio.current_time()
            await ask(channel)
            for _ in range(20):
                mesh.network.cut(mesh.hosts[0])
                await trio.sleep(5)
    assert [round(at - began) for at in polls] == [0, 30, 60, 90]


async def test_a_resolver_that_waits_is_asked_nothing_while_no_host_is_lost(autojump_clock):
    polls: list[float] = []

    async def poll(args):
        while True:
            polls.append(trio.current_time())
            yield ResolverUpdate(hosts)
            await args.wait_for_resolve_now()

    hosts: list[str] = []
    async with hosts_in_memory(1) as mesh:
        hosts.extend(mesh.hosts)
        async with mesh.channel(TARGET, resolvers={"my": poll}) as channel:
            for _ in range(10):
                await ask(channel)
                await trio.sleep(60)
    assert len(polls) == 1


# -- its lifetime


async def test_a_resolver_ends_with_its_channel(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(mesh.hosts[0])
        await ask(channel)
        assert feed.running == 1
        assert "resolver/my:///cart" in task_names()
    assert feed.running == 0


async def test_a_resolver_stops_while_the_channel_is_idle_and_starts_with_the_next_call(autojump_clock):
    feed = Feed()
    async with resolved(feed, idle_timeout=60) as (mesh, channel):
        feed.push(mesh.hosts[0])
        await ask(channel)
        await trio.sleep(70)
        assert channel.state is Connectivity.IDLE
        assert feed.running == 0
        await trio.sleep(600)
        assert feed.seen["begun"] == 1
        feed.push(mesh.hosts[1])
        assert await ask(channel) == mesh.hosts[1]
        assert feed.running == 1


async def test_a_context_manager_around_the_iterator_is_left_with_the_channel(autojump_clock):
    @asynccontextmanager
    async def watching(args):
        async with trio.open_nursery() as nursery:
            send, receive = trio.open_memory_channel(1)
            nursery.start_soon(send.send, ResolverUpdate(hosts))
            events.append("entered")
            try:
                yield receive
            finally:
                events.append("left")
                nursery.cancel_scope.cancel()

    hosts: list[str] = []
    events: list[str] = []
    async with hosts_in_memory(1) as mesh:
        hosts.extend(mesh.hosts)
        async with mesh.channel(TARGET, resolvers={"my": watching}) as channel:
            assert await ask(channel) == mesh.hosts[0]
    assert events == ["entered", "left"]


async def test_an_iterator_that_never_waits_lets_calls_through_and_the_channel_close(autojump_clock):
    async def busy(args):
        while True:
            yield ResolverUpdate(hosts)

    hosts: list[str] = []
    async with hosts_in_memory(1) as mesh:
        hosts.extend(mesh.hosts)
        async with mesh.channel(TARGET, resolvers={"my": busy}) as channel:
            assert await ask(channel) == mesh.hosts[0]


async def test_a_crash_in_a_nursery_of_the_generator_itself_is_a_failure_and_no_crash_of_the_channel(autojump_clock):
    async def generator(args):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(later)
            yield ResolverUpdate(hosts)
            await trio.sleep_forever()

    async def later():
        await trio.sleep(5)
        raise OSError("stream broke")

    hosts: list[str] = []
    async with hosts_in_memory(1) as mesh:
        hosts.extend(mesh.hosts)
        async with mesh.channel(TARGET, resolvers={"my": generator}) as channel:
            await ask(channel)
            await trio.sleep(5.1)
            assert "OSError: stream broke" in warnings_of(channel)[0]
            assert await ask(channel) == mesh.hosts[0]


async def test_a_resolver_whose_cleanup_fails_does_not_end_the_channel_that_becomes_idle(autojump_clock, caplog):
    async def resolver(args):
        yield ResolverUpdate(hosts)
        await wait_and_fail_when_cancelled()

    hosts: list[str] = []
    async with hosts_in_memory(1) as mesh:
        hosts.extend(mesh.hosts)
        async with mesh.channel(TARGET, resolvers={"my": resolver}, idle_timeout=60) as channel:
            await ask(channel)
            await trio.sleep(70)
            assert channel.state is Connectivity.IDLE
            assert [record.message for record in caplog.records if record.exc_info] == [
                "my:///cart: its resolver raised while it was cancelled"
            ]
            assert await ask(channel) == mesh.hosts[0]


# -- targets


async def test_the_resolver_sees_the_parts_of_its_target(autojump_clock):
    feed = Feed()
    async with resolved(feed, target="MY://registry.example:8500/shop%20a/cart"):
        await settled()
        target = feed.args[0].target
    assert target.text == "MY://registry.example:8500/shop%20a/cart"
    assert (target.scheme, target.authority, target.path) == ("my", "registry.example:8500", "shop a/cart")


@pytest.mark.parametrize(
    ("target", "authority"),
    [
        ("my:///cart", "cart"),
        ("my:cart:50051", "cart:50051"),
        ("my:///shop/cart", "shop%2Fcart"),
        ("my:////shop/cart", "%2Fshop%2Fcart"),
    ],
)
async def test_the_path_is_the_default_authority_of_calls(autojump_clock, target, authority):
    feed = Feed()
    async with resolved(feed, target=target) as (_, channel):
        assert channel._state.authority == authority


async def test_the_authority_of_the_channel_takes_the_place_of_the_paths(autojump_clock):
    async with resolved(Feed(), authority="shop.example") as (_, channel):
        assert channel._state.authority == "shop.example"


@pytest.mark.parametrize("scheme", ["xds", "dns", "ipv4", "ipv6", "unix", "unix-abstract"])
async def test_a_scheme_of_trxds_cannot_be_given_to_another_resolver(scheme):
    with pytest.raises(ValueError, match=f"trxds resolves {scheme}: targets itself; choose another scheme"):
        async with trxds.open_channel("my:///cart", resolvers={scheme: Feed().resolve}):
            pass


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"resolvers": {"My": Feed}}, "'My' is no scheme of a target"),
        ({"resolvers": {"": Feed}}, "'' is no scheme of a target"),
        ({"resolvers": {"my": 7}}, r"resolvers\['my'\] is a function that returns an async iterator, not 7"),
        ({"resolvers": {"other": Feed}}, "unknown scheme 'my'"),
        ({"resolvers": {"my": Feed}, "bootstrap": {}}, "bootstrap cannot be used with the target 'my:///cart'"),
        ({"resolvers": {"my": Feed}, "refresh": 0.5}, "refresh is 0.5; it must be a number of seconds from 1"),
    ],
)
async def test_wrong_arguments_are_refused_before_anything_runs(options, text):
    with pytest.raises((ValueError, TypeError), match=text):
        async with trxds.open_channel("my:///cart", network=MemoryNetwork(), **options):
            pass


async def test_a_target_that_names_nothing_is_refused(autojump_clock):
    with pytest.raises(ValueError, match="nothing to resolve after the scheme; write my:///NAME"):
        async with trxds.open_channel("my:///", resolvers={"my": Feed().resolve}):
            pass


async def test_half_of_a_surrogate_pair_in_a_target_of_ones_own_scheme_is_refused(autojump_clock):
    with pytest.raises(
        ValueError, match=r"target 'my:///a\\ud800' has half of a surrogate pair; write whole characters"
    ):
        async with trxds.open_channel("my:///a\ud800", resolvers={"my": Feed().resolve}):
            pass


async def test_other_targets_are_resolved_as_ever(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel(resolvers={"my": Feed().resolve}) as channel:
        assert await ask(channel) == mesh.hosts[0]


# -- values


@pytest.mark.parametrize(
    ("endpoint", "text"),
    [
        ("cart.example:443", "'cart.example:443' is no IP address with a port; write 10.0.0.1:443"),
        ("10.0.0.1", "'10.0.0.1' is no IP address with a port"),
        ("10.0.0.1:0", "is no IP address with a port"),
        ("10.0.0.1:65536", "is no IP address with a port"),
        ("10.0.0.1:²", "is no IP address with a port"),
        ("::1:443", "is no IP address with a port"),
        ("[::1:443", "is no IP address with a port"),
        ("::1]:443", "is no IP address with a port"),
        ("unix:", "has no path; write unix:PATH"),
        (7, "an endpoint is a trxds.resolvers.Endpoint, or an address as text, not 7"),
        (Endpoint("10.0.0.1:443"), r'addresses is a tuple such as \("10.0.0.1:443",\)'),
        (Endpoint(()), r"addresses is a tuple such as .*, not \(\)"),
        (Endpoint((7,)), "an address is a text such as 10.0.0.1:443, not 7"),
        (Endpoint(("10.0.0.1:443",), weight=0), "weight is a whole number from 1, not 0"),
        (Endpoint(("10.0.0.1:443",), weight=2**32), "weight is a whole number from 1, not 4294967296"),
        (Endpoint(("10.0.0.1:443",), weight=1.5), "weight is a whole number from 1, not 1.5"),
        (Endpoint(("10.0.0.1:443",), weight=True), "weight is a whole number from 1, not True"),
        (Endpoint(("10.0.0.1:443",), hostname=None), "endpoint 10.0.0.1:443: hostname is a text, not None"),
        (Endpoint(("10.0.0.1:443",), hash_key=5), "hash_key is a text, not 5"),
        (Endpoint(("10.0.0.1:443",), attributes=["a"]), "attributes is a mapping, not list"),
        (Endpoint(("10.0.0.1:443",), proxy="10.0.0.9:3128"), "only EDS can give a host a proxy .* leave proxy out"),
        (Endpoint(("10.0.0.1:443",), health="DRAINING"), "health is a HealthStatus, not 'DRAINING'"),
    ],
)
def test_an_endpoint_that_cannot_be_used_is_refused_where_it_is_made(endpoint, text):
    with pytest.raises((ValueError, TypeError), match=text):
        ResolverUpdate([endpoint])


def test_one_text_is_no_list_of_endpoints():
    with pytest.raises(TypeError, match=r"endpoints is a list of endpoints, not the text '10\.0\.0\.1:443'"):
        ResolverUpdate("10.0.0.1:443")


def test_an_address_has_one_form():
    update = ResolverUpdate(["[0:0::1]:443", "unix:/run/cart", "unix-abstract:cart"])
    assert [each.addresses for each in update.checked_endpoints] == [
        ("[::1]:443",),
        ("unix:/run/cart",),
        ("unix-abstract:cart",),
    ]


@pytest.mark.parametrize("weight", [1, 2**32 - 1])
def test_the_least_and_the_greatest_weight_and_port_can_be_used(weight):
    endpoint = Endpoint(("10.0.0.1:1", "10.0.0.1:65535"), weight=weight)
    assert ResolverUpdate([endpoint]).checked_endpoints == (endpoint,)


def test_an_endpoint_with_an_address_of_one_before_it_is_left_out():
    first, both = Endpoint(("10.0.0.1:1", "10.0.0.2:1")), Endpoint(("10.0.0.2:1", "10.0.0.3:1"))
    update = ResolverUpdate([first, both, "10.0.0.1:1", "10.0.0.3:1"])
    assert [each.addresses for each in update.checked_endpoints] == [("10.0.0.1:1", "10.0.0.2:1"), ("10.0.0.3:1",)]


def test_a_service_config_of_another_type_is_refused():
    with pytest.raises(TypeError, match="service_config is JSON text or a mapping of the same shape, not list"):
        ResolverUpdate([], service_config=[])
