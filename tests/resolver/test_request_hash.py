"""The request hash by values (A42); the vectors of XXH64 with seed 0 are its specification's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trxds.core.metadata import EMPTY, Metadata
from trxds.resolver.request_hash import request_hash
from trxds.resources.hash_policy import ChannelIdHash, HeaderHash
from trxds.resources.regex import Regex, Rewrite

CHANNEL = 0x8000_0000_0000_0001
OF_NOTHING = 0xEF46DB3751D8E999  # XXH64("")
OF_A = 0xD24EC4F1A98C6E5B  # XXH64("a")
OF_ABC = 0x44BC2CF5AD770999  # XXH64("abc")


def hashed(*policies, channel_id=CHANNEL, **headers):
    return request_hash(policies, Metadata(headers.items()), channel_id)


@pytest.mark.parametrize("value, number", [("", OF_NOTHING), ("a", OF_A), ("abc", OF_ABC)])
def test_a_header_is_hashed_by_xxh64(value, number):
    assert hashed(HeaderHash("user"), user=value) == number


def test_the_values_of_a_header_are_joined_by_commas():
    twice = Metadata([("user", "a"), ("user", "b")])
    assert request_hash([HeaderHash("user")], twice, 0) == hashed(HeaderHash("user"), user="a,b")


def test_a_header_may_be_rewritten_first():
    policy = HeaderHash("user", Rewrite(Regex("[0-9]+"), ""))
    assert hashed(policy, user="12a34") == OF_A


@pytest.mark.parametrize("policies", [(), (HeaderHash("user"),), (HeaderHash("key-bin"),)])
def test_a_request_without_a_hash_policy_that_applies_has_no_hash(policies):
    assert request_hash(policies, Metadata([("key-bin", b"1")]), CHANNEL) is None


def test_the_channel_id_is_the_hash_of_its_policy():
    assert hashed(ChannelIdHash()) == CHANNEL


def test_hashes_are_combined_by_rotating_the_earlier_one():
    assert hashed(ChannelIdHash(), HeaderHash("user"), user="a") == 0x3 ^ OF_A


@given(st.integers(0, 2**64 - 1))
def test_equal_hashes_do_not_cancel_each_other_out(number):
    rotated = (number * 2) % 2**64 + (number >> 63)
    assert request_hash([ChannelIdHash()] * 2, EMPTY, number) == rotated ^ number


def test_a_hash_policy_that_yields_nothing_is_skipped():
    assert hashed(HeaderHash("absent"), HeaderHash("user"), user="a") == OF_A


def test_no_hash_policy_counts_after_a_terminal_one():
    assert hashed(HeaderHash("user", terminal=True), ChannelIdHash(), user="a") == OF_A


def test_a_terminal_hash_policy_without_a_hash_does_not_end_the_list():
    assert hashed(HeaderHash("absent", terminal=True), HeaderHash("user"), user="a") == OF_A


def test_a_terminal_hash_policy_without_a_hash_ends_the_list_after_another_ones_hash():
    absent = HeaderHash("absent", terminal=True)
    assert hashed(HeaderHash("user"), absent, ChannelIdHash(), user="a") == OF_A
