"""A program's own resolver finds the hosts of a target: its updates, and the endpoints in them."""

from dataclasses import dataclass

import pytest
import trio
from support.mesh import ask, spread
from support.resolvers import Feed, failure, resolved, settled

from trxds import Connectivity, StatusCode
from trxds.policies import Complete, EndpointList, PolicyType
from trxds.resolvers import Endpoint, HealthStatus, ResolverUpdate

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
