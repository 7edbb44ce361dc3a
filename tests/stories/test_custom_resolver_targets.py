"""A target of a program's own scheme: which resolver gets it, which of its parts, and which targets are refused."""

import pytest
from support.mesh import ask
from support.plain import hosts_in_memory
from support.resolvers import Feed, resolved, settled

import trxds
from trxds.testing.network import MemoryNetwork


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
