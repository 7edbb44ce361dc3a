"""A `CookieAffinity` takes what makes a cookie that clients keep, and refuses all else with the reason."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trxds import CookieAffinity
from trxds.resources.cookie_affinity import MAX_NAME_SIZE, MAX_PATH_SIZE, MAX_TTL
from trxds.resources.stateful_session import CookieConfig, StatefulSessionConfig
from trxds.session_affinity.cookie import set_cookie_header
from trxds.session_affinity.cookie_jar import CookieJar, parse_set_cookie
from trxds.session_affinity.session_hosts import CookieKey


def test_an_affinity_is_the_configuration_of_a_filter():
    affinity = CookieAffinity("cart", "/shop.Cart", 60, strict=True)
    cookie = CookieConfig("cart", "/shop.Cart", 60.0, names_cluster=False)
    assert affinity.filter_config == StatefulSessionConfig(cookie, strict=True)


@pytest.mark.parametrize("ttl", [None, 0])
def test_an_affinity_is_by_default_for_every_method_and_lasts_as_long_as_the_session(ttl):
    cookie = CookieConfig("cart", "/", 0.0, names_cluster=False)
    assert CookieAffinity("cart", ttl=ttl).filter_config == StatefulSessionConfig(cookie)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "name is missing; write the cookie's name"),
        ({"name": "a b"}, "name is 'a b'; a cookie's name has letters, digits and"),
        ({"name": "a;b"}, "name is 'a;b'; a cookie's name has letters, digits and"),
        ({"name": "a=b"}, "name is 'a=b'; a cookie's name has letters, digits and"),
        ({"name": "caf\u00e9"}, "name is 'caf\u00e9'; a cookie's name has letters, digits and"),
        ({"name": "a" * (MAX_NAME_SIZE + 1)}, "name has 257 characters; write at most 256"),
        ({"path": ""}, "path is ''; write \"/\" for all methods"),
        ({"path": "shop.Cart"}, "path is 'shop.Cart'; write \"/\" for all methods"),
        ({"path": "/a;b"}, "path is '/a;b'; write \"/\" for all methods"),
        ({"path": "/a b"}, "path is '/a b'; write \"/\" for all methods"),
        ({"path": "/" + "a" * MAX_PATH_SIZE}, "path has 1025 characters; write at most 1024"),
        ({"ttl": -1}, "ttl is -1 s; it must be 0"),
        ({"ttl": 0.5}, "ttl is 0.5 s; it must be 0"),
        ({"ttl": 1.5}, "ttl is 1.5 s; it must be 0, which lasts as long as the session, or whole seconds from 1 s to"),
        ({"ttl": math.nan}, "ttl is nan s; it must be 0"),
        ({"ttl": math.inf}, "ttl is inf s; it must be 0"),
        ({"ttl": MAX_TTL * 2}, "ttl is 631152000000 s; it must be 0"),
    ],
)
def test_a_value_that_makes_no_cookie_is_refused(fields, message):
    with pytest.raises(ValueError) as caught:
        CookieAffinity(**{"name": "cart"} | fields)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "fields",
    [{"name": "a" * MAX_NAME_SIZE}, {"path": "/" + "a" * (MAX_PATH_SIZE - 1)}, {"ttl": 1}, {"ttl": MAX_TTL}],
)
def test_a_value_at_its_limit_is_taken(fields):
    affinity = CookieAffinity(**{"name": "cart"} | fields)
    assert {name: getattr(affinity, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": 7}, "name is a text, not 7"),
        ({"path": None}, "path is a text, not None"),
        ({"ttl": "60s"}, "ttl is a number of seconds, or None, not '60s'"),
        ({"ttl": True}, "ttl is a number of seconds, or None, not True"),
        ({"strict": 1}, "strict is True or False, not 1"),
    ],
)
def test_a_value_of_another_type_is_refused(fields, message):
    with pytest.raises(TypeError) as caught:
        CookieAffinity(**{"name": "cart"} | fields)
    assert str(caught.value) == message


@given(st.text(max_size=8), st.text(max_size=8).map("/".__add__), st.floats() | st.none())
def test_a_jar_keeps_the_cookie_of_every_affinity_under_its_name_and_path(name, path, ttl):
    try:
        affinity = CookieAffinity(name, path, ttl)
    except ValueError:
        return
    jar = CookieJar()
    received = parse_set_cookie(set_cookie_header(affinity.filter_config.state, "VALUE"), 0.0)
    assert received is not None
    jar.store(received, 0.0)
    assert jar.live(0.5) == [(CookieKey(name, path), "VALUE")]
