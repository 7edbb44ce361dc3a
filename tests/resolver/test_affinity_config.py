"""`statefulSession` of a service config: what is read from it, and that every mistake is named with its place."""

import pytest

from trxds import CookieAffinity
from trxds.resolver.service_config import parse_service_config


def read(value):
    return parse_service_config({"statefulSession": value}).affinity


def cookie(**fields):
    return {"cookie": {"name": "cart", **fields}}


@pytest.mark.parametrize(
    ("value", "affinity"),
    [
        (None, None),
        (cookie(), CookieAffinity("cart")),
        (cookie(path="/shop.Cart", ttl="3600s"), CookieAffinity("cart", "/shop.Cart", 3600.0)),
        (cookie(ttl="0s", path=None), CookieAffinity("cart")),
        (cookie() | {"strict": True}, CookieAffinity("cart", strict=True)),
        (cookie(attributes=[{"name": "SameSite"}]) | {"fromTheFuture": 1}, CookieAffinity("cart")),
    ],
)
def test_an_affinity_is_read(value, affinity):
    assert read(value) == affinity


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        (True, ["statefulSession: is a boolean; write an object"]),
        (
            {},
            ['statefulSession.cookie: is missing; write for example {"name": "session", "path": "/", "ttl": "3600s"}'],
        ),
        ({"cookie": "cart"}, ["statefulSession.cookie: is a string; write an object"]),
        ({"cookie": {}}, ['statefulSession.cookie.name: is missing; write the cookie\'s name, for example "session"']),
        (cookie(name=7), ["statefulSession.cookie.name: is a number; write a string"]),
        (
            cookie(name="a b"),
            ["statefulSession.cookie.name: is 'a b'; a cookie's name has letters, digits and !#$%&'*+-.^_`|~ only"],
        ),
        (
            cookie(path="shop.Cart"),
            [
                "statefulSession.cookie.path: is 'shop.Cart'; write \"/\" for all methods, "
                'or the beginning of some, as "/shop.Cart"'
            ],
        ),
        (cookie(ttl=60), ['statefulSession.cookie.ttl: is a number; write a string such as "600s"']),
        (
            cookie(ttl="0.5s"),
            [
                "statefulSession.cookie.ttl: is 0.5 s; it must be 0, which lasts as long as the session, "
                "or whole seconds from 1 s to 315576000000 s"
            ],
        ),
        (cookie() | {"strict": "yes"}, ["statefulSession.strict: is a string; write true or false"]),
        (
            {"cookie": {"name": "", "path": 1, "ttl": "x"}},
            [
                "statefulSession.cookie.path: is a number; write a string",
                "statefulSession.cookie.ttl: is 'x'; write seconds such as \"600s\"",
                'statefulSession.cookie.name: is missing; write the cookie\'s name, for example "session"',
            ],
        ),
    ],
)
def test_every_mistake_is_named_with_its_place(value, problems):
    with pytest.raises(ValueError) as caught:
        read(value)
    found = str(caught.value).removeprefix("service config: ").split("\nservice config: ")
    assert sorted(found) == sorted(problems)
