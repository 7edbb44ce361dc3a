"""The stateful session filter turns a request's metadata into an override and a Set-Cookie; tested by values."""

import base64
import math

import pytest

from trxds.core.metadata import Metadata
from trxds.lb.pick import PickArgs
from trxds.resolver.routes import BoundCluster, BoundRoute
from trxds.resources.matchers import Prefix
from trxds.resources.route import Route
from trxds.resources.route_action import RouteAction, WeightedCluster
from trxds.resources.route_match import RouteMatch
from trxds.resources.stateful_session import CookieConfig, HeaderConfig
from trxds.session_affinity.cookie import encode, encode_base64
from trxds.session_affinity.stateful_session_filter import StatefulSession


def call(cookie=None, cluster="a", routed=("a", "b"), path="/shop.Cart/Add"):
    clusters = tuple(WeightedCluster(name) for name in routed)
    route = Route(RouteMatch(Prefix("")), RouteAction(clusters))
    bound = BoundRoute(route, math.inf, tuple(BoundCluster(name, ()) for name in routed), (1, 2))
    metadata = Metadata([("cookie", f"s={cookie}")]) if cookie else Metadata()
    return PickArgs(path, metadata, bound, cluster)


def start(args, actual="1.1.1.1:1", **config):
    """Return the metadata that the filter makes of a response when the pick chose `actual`."""
    respond = StatefulSession(CookieConfig("s", **config)).start(args)
    if respond is None:
        return None
    args.override.actual_address_list = actual
    return respond(Metadata([("x", "1")]))


def cookie_for(address, cluster):
    return ("set-cookie", f"s={encode(address, cluster)}; HttpOnly")


def test_an_rpc_without_a_cookie_gets_a_set_cookie_for_its_host():
    args = call()
    assert start(args) == (("x", "1"), cookie_for("1.1.1.1:1", "a"))
    assert args.override.addresses == ()


def test_a_cookie_whose_host_was_used_is_not_set_again():
    assert start(call(encode("1.1.1.1:1", "a"))) == (("x", "1"),)


def test_a_cookie_in_another_header_is_none():
    args = call()
    args.metadata = Metadata([("x-cookie", f"s={encode('1.1.1.1:1', 'a')}")])
    start(args)
    assert args.override.addresses == ()


def test_the_cookies_addresses_become_the_override():
    args = call(encode("1.1.1.1:1,2.2.2.2:2", "a"))
    start(args)
    assert args.override.addresses == ("1.1.1.1:1", "2.2.2.2:2")


def test_another_host_than_the_cookies_is_set():
    assert cookie_for("3.3.3.3:3", "a") in start(call(encode("1.1.1.1:1", "a")), actual="3.3.3.3:3")


def test_a_cookie_is_set_again_for_another_order_of_addresses():
    args = call(encode("1.1.1.1:1,2.2.2.2:2", "a"))
    assert cookie_for("2.2.2.2:2,1.1.1.1:1", "a") in start(args, actual="2.2.2.2:2,1.1.1.1:1")


def test_the_cookies_cluster_replaces_the_drawn_one():
    args = call(encode("1.1.1.1:1", "b"))
    assert start(args) == (("x", "1"),)
    assert args.cluster == "b"


def test_a_cookies_host_counts_even_if_the_route_does_not_have_its_cluster():
    args = call(encode("1.1.1.1:1", "c"))
    assert cookie_for("1.1.1.1:1", "a") in start(args)
    assert args.cluster == "a"
    assert args.override.addresses == ("1.1.1.1:1",)


def test_a_cookie_without_a_cluster_is_replaced_by_one_that_names_it():
    args = call(encode("1.1.1.1:1", "").rstrip("="))
    assert cookie_for("1.1.1.1:1", "a") in start(args)


@pytest.mark.parametrize("path", ["/other", "/shop.Cart/Ad"])
def test_the_session_filter_does_not_apply_outside_its_path(path):
    args = call(encode("1.1.1.1:1", "a"))
    assert start(args, path=path) is None
    assert args.override is None


def test_the_cluster_of_a_cookie_counts_whatever_bytes_stand_before_it():
    args = call(base64.b64encode(b"\xff\xfe;b").decode())
    start(args)
    assert args.cluster == "b"


def test_the_host_of_a_cookie_counts_whatever_bytes_stand_after_it():
    args = call(base64.b64encode(b"1.1.1.1:1;\xff\xfe").decode())
    assert cookie_for("1.1.1.1:1", "a") in start(args)
    assert args.override.addresses == ("1.1.1.1:1",)


def test_an_undecodable_cookie_counts_as_none():
    assert cookie_for("1.1.1.1:1", "a") in start(call("!!!"))


def test_a_session_header_with_more_than_the_host_is_replaced():
    said = encode("1.1.1.1:1,2.2.2.2:2", "a")
    args = PickArgs("/shop.Cart/Add", Metadata([("session", said)]), cluster="a")
    respond = StatefulSession(HeaderConfig("session")).start(args)
    args.override.actual_address_list = "1.1.1.1:1,2.2.2.2:2"
    assert respond(Metadata([("session", "the server's")])) == (("session", encode_base64("1.1.1.1:1")),)


def test_a_host_without_an_address_list_gets_no_set_cookie():
    assert start(call(), actual="") == (("x", "1"),)


class TestEnvoysExpiry:
    """The expiry is compared with the wall clock for every RPC, also for a cached cookie."""

    EXPIRES = 1_000

    def addresses(self, filter_):
        said = b"\x0a\x09" + b"1.1.1.1:1" + b"\x10\xe8\x07"
        args = call(base64.b64encode(said).decode())
        filter_.start(args)
        return args.override.addresses

    def test_envoys_cookie_counts_until_its_expiry(self):
        now = self.EXPIRES
        filter_ = StatefulSession(CookieConfig("s"), epoch=lambda: now)
        assert self.addresses(filter_) == ("1.1.1.1:1",)
        now += 1
        assert self.addresses(filter_) == ()

    def test_an_expired_cookie_is_not_logged_as_bad(self, caplog):
        self.addresses(StatefulSession(CookieConfig("s"), epoch=lambda: self.EXPIRES + 1))
        assert caplog.records == []


class TestBadTexts:
    def read(self, filter_, text):
        filter_.start(call(text))

    @pytest.mark.parametrize(
        "address",
        [
            "localhost:1",
            "1.1.1.1",
            ":1",
            "1.1.1.1:",
            "1.1.1.1:x",
            "1.1.1.1:65536",
            "[::1:1",
            "::1:1",
            "[1.1.1.1]:1",
            "",
        ],
    )
    def test_a_bad_cookie_is_logged_once_by_each_filter(self, caplog, address):
        for _ in range(2):
            filter_ = StatefulSession(CookieConfig("s"))
            self.read(filter_, encode(address, "a"))
            self.read(filter_, encode(address, "a"))
        assert [record.name for record in caplog.records] == ["trxds.session_affinity"] * 2
        assert "cookie 's' holds no address; its RPCs may go to any host" in caplog.text

    def test_the_log_says_that_a_good_address_among_bad_texts_is_used(self, caplog):
        filter_ = StatefulSession(CookieConfig("s"))
        args = call(encode("nowhere,1.1.1.1:1", "a"))
        filter_.start(args)
        assert "1.1.1.1:1" in args.override.addresses
        (record,) = caplog.records
        assert record.getMessage() == ("cookie 's' holds texts that are no addresses; its RPCs use only its addresses")

    def test_a_cookie_with_a_port_of_thousands_of_digits_is_bad(self, caplog):
        self.read(StatefulSession(CookieConfig("s")), encode(f"1.1.1.1:{'9' * 2000}", "a"))
        assert "holds no address;" in caplog.text

    def test_many_different_bad_cookies_are_logged_once(self, caplog):
        filter_ = StatefulSession(CookieConfig("s"))
        for number in range(100):
            self.read(filter_, f"forged-{number}")
        assert len(caplog.records) == 1

    def test_no_part_of_a_bad_cookie_is_logged(self, caplog):
        filter_ = StatefulSession(CookieConfig("s"))
        for text in (
            "my-Secret",
            encode("my-Secret", "a"),
            encode("1.1.1.1:1,my-Secret", "a"),
            encode("", "my-Secret"),
        ):
            args = call(text)
            self.read(filter_, text)
            filter_.start(args)
            step = filter_.explain(args)
            assert "my-Secret" not in f"{caplog.text}{args.override!r}{step!r}{filter_._decoded_cookies[text]!r}"

    def test_a_cookie_too_large_for_browsers_is_neither_decoded_nor_cached(self, caplog):
        filter_ = StatefulSession(CookieConfig("s"))
        args = call(encode(",".join(["1.1.1.1:1"] * 1000), "a"))
        filter_.start(args)
        assert (args.override.addresses, filter_._decoded_cookies) == ((), {})
        assert "cookie 's' is longer than 4096 characters" in caplog.text

    @pytest.mark.parametrize("address", ["1.1.1.1:1", "[::1]:1", "[::ffff:1.2.3.4]:80", "1.1.1.1:1,[::1]:65535"])
    def test_a_cookie_with_a_list_of_addresses_is_not_logged(self, caplog, address):
        self.read(StatefulSession(CookieConfig("s")), encode(address, "a"))
        assert caplog.records == []

    def test_the_cache_of_decoded_cookies_is_bounded(self):
        filter_ = StatefulSession(CookieConfig("s"))
        for number in range(2_000):
            self.read(filter_, encode(f"1.1.1.1:{number}", "a"))
        assert len(filter_._decoded_cookies) <= 256


class TestTwoInOneChain:
    def start(self, metadata, actual="3.3.3.3:3"):
        args = call()
        args.metadata = Metadata(metadata)
        responds = [StatefulSession(CookieConfig(name), name == "one").start(args) for name in ("one", "two")]
        args.override.actual_address_list = actual
        headers = Metadata()
        for respond in responds:
            headers = respond(headers)
        return args.override, headers

    def test_the_later_session_filters_cookie_and_strictness_count(self):
        both = f"one={encode('1.1.1.1:1', 'a')}; two={encode('2.2.2.2:2', 'a')}"
        override, _ = self.start([("cookie", both)])
        assert (override.addresses, override.strict) == (("2.2.2.2:2",), False)

    def test_the_earlier_session_filters_cookie_counts_if_the_later_has_none(self):
        override, _ = self.start([("cookie", f"one={encode('1.1.1.1:1', 'a')}")])
        assert (override.addresses, override.strict) == (("1.1.1.1:1",), True)

    def test_each_session_filter_sets_its_own_cookie_if_it_changed(self):
        _, headers = self.start([("cookie", f"one={encode('3.3.3.3:3', 'a')}")])
        assert [value.partition("=")[0] for _, value in headers] == ["two"]
