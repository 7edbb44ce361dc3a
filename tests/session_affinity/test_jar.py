"""A session's cookie jar stores and sends cookies as a browser does (RFC 6265)."""

import pytest

from trxds.session_affinity.cookie import MAX_SIZE, encode
from trxds.session_affinity.cookie_jar import (
    MAX_ATTRIBUTE_SIZE,
    MAX_COOKIES,
    MAX_JAR_SIZE,
    CookieJar,
    parse_set_cookie,
)

EPOCH = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, when the tests' clock says 0

HOST = encode("10.0.0.1:80", "cart")
ADDRESSES = ",".join(["[fd00:1111:2222:3333:4444:5555:6666:7777]:50051"] * 10)


def store(jar, header, now):
    received = parse_set_cookie(header, EPOCH + now)
    if received is not None:
        jar.store(received, now)


def jar(*headers, now=0.0):
    made = CookieJar()
    for header in headers:
        store(made, header, now)
    return made


def test_a_stored_cookie_is_sent_back():
    assert jar("s=V; HttpOnly").header("/a/b", 0) == "s=V"


def test_a_newer_cookie_replaces_the_older_of_its_name():
    assert jar("s=1", "s=2").header("/", 0) == "s=2"


def test_several_cookies_share_a_header_the_longest_path_first():
    assert jar("a=1", "b=2; Path=/x", "c=3; Path=/x/y").header("/x/y", 0) == "c=3; b=2; a=1"


def test_cookies_of_equal_paths_stand_in_the_order_of_their_creation_which_a_new_value_keeps():
    assert jar("a=1", "b=2", "a=3").header("/", 0) == "a=3; b=2"


def test_a_cookie_that_comes_after_its_end_is_created_anew():
    made = jar("a=1; Max-Age=10", "b=2")
    store(made, "a=3", now=10)
    assert made.header("/", 10) == "b=2; a=3"


def test_a_cookie_of_another_path_stays_in_the_jar():
    assert jar("s=V; Path=/x").header("/y", 0) == ""


def test_max_age_ends_a_cookie():
    made = jar("s=V; Max-Age=10", now=5)
    assert made.header("/", 14.9) == "s=V"
    assert made.header("/", 15) == ""


def test_a_max_age_of_one_second_lasts_for_it():
    made = jar("s=V; Max-Age=1")
    assert (made.header("/", 0.9), made.header("/", 1)) == ("s=V", "")


@pytest.mark.parametrize("age", ["0", "-1"])
def test_a_max_age_of_0_or_less_deletes_a_cookie(age):
    made = jar("s=V")
    assert not made.store(parse_set_cookie(f"s=; max-age={age}", EPOCH), 0.0)
    assert made.header("/", 0) == ""


@pytest.mark.parametrize("header", ["", "nothing", "=V", ";"])
def test_an_invalid_set_cookie_is_ignored(header):
    assert jar(header).header("/", 0) == ""


def test_a_max_age_that_is_no_number_is_ignored():
    assert jar("s=V; Max-Age=soon").header("/", 1e9) == "s=V"


def test_a_max_age_of_hundreds_of_digits_never_ends():
    assert jar(f"s=V; Max-Age={'9' * 400}", f"t=W; Max-Age={'9' * 5000}").header("/", 1e9) == "s=V; t=W"


def test_many_cookie_names_neither_fill_memory_nor_replace_the_session():
    made = jar("s=V", *(f"id-{n}={n}" for n in range(1000)))
    assert made.header("/", 0).startswith("s=V; ")
    assert len(made.header("/", 0).split("; ")) == MAX_COOKIES
    store(made, "s=W", 0)
    assert "s=W" in made.header("/", 0)


def test_expired_cookies_make_room_in_a_full_jar():
    made = jar(*(f"id-{n}={n}; Max-Age=5" for n in range(1000)))
    store(made, "s=V", 10)
    assert made.header("/", 10) == "s=V"


def test_the_sessions_cookie_finds_room_in_a_jar_full_of_foreign_ones():
    made = jar(*(f"id-{n}={n}" for n in range(MAX_COOKIES)), f"s={HOST}")
    assert made.header("/", 0).split("; ") == [*(f"id-{n}={n}" for n in range(MAX_COOKIES - 1)), f"s={HOST}"]


def test_large_cookies_do_not_make_a_header_that_servers_refuse():
    made = jar(*(f"id-{n}={'x' * 4000}" for n in range(20)))
    assert [part.partition("=")[0] for part in made.header("/", 0).split("; ")] == ["id-0", "id-1"]
    assert len(made.header("/", 0)) <= MAX_JAR_SIZE


def test_large_cookies_leave_room_for_the_sessions_cookie():
    made = jar(*(f"id-{n}={'x' * 4000}" for n in range(2)), f"s={HOST}", f"s={encode(ADDRESSES, 'cart')}")
    assert [part.partition("=")[0] for part in made.header("/", 0).split("; ")] == ["id-0", "s"]


def test_a_foreign_cookie_that_grows_makes_younger_ones_leave_the_jar():
    made = jar("a=1", f"b={'x' * 4000}", f"c={'x' * 4000}", f"a={'x' * 4000}")
    assert [part.partition("=")[0] for part in made.header("/", 0).split("; ")] == ["a", "b"]


def test_a_session_that_has_moved_has_no_more_cookies_than_a_jar():
    since = jar()
    old, new = since.copy(), since.copy()
    for number in range(MAX_COOKIES):
        store(old, f"old-{number}=1", 0)
        store(new, f"new-{number}=1", 0)
    store(new, f"s={HOST}", 0)
    moved = jar()
    for changed in (old, new):
        moved.take_changes(changed, since)
    assert len(moved.header("/", 0).split("; ")) == MAX_COOKIES
    assert f"s={HOST}" in moved.header("/", 0)


@pytest.mark.parametrize("header", ["s=\xfc", "s=a\0b", "s=a\r\nb", "\xfc=V"])
def test_a_cookie_that_no_request_could_carry_is_ignored(header):
    assert jar("s=V", header).header("/", 0) == "s=V"


def test_expires_ends_a_cookie_by_the_wall_clock():
    made = jar("s=V; Expires=Sun, 06 Nov 1994 08:49:47 GMT")
    assert made.header("/", 9.9) == "s=V"
    assert made.header("/", 10) == ""


@pytest.mark.parametrize("date", ["Thu, 01-Jan-1970 00:00:00 GMT", "Thu, 01-Jan-70 00:00:00 GMT"])
def test_an_expires_in_the_past_deletes_a_cookie(date):
    assert jar("s=V", f"s=; expires={date}").header("/", 0) == ""


@pytest.mark.parametrize(
    "attributes",
    ["Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=10"],
)
def test_max_age_wins_over_expires(attributes):
    made = jar(f"s=V; {attributes}")
    assert made.header("/", 9.9) == "s=V"
    assert made.header("/", 10) == ""


@pytest.mark.parametrize("age", ["1_0", "+5", "1.5", "\u0663", ""])
def test_expires_counts_if_max_age_is_no_integer(age):
    assert jar(f"s=V; Expires=Sun, 06 Nov 1994 08:49:47 GMT; Max-Age={age}").header("/", 10) == ""


def test_an_expires_that_is_no_date_is_ignored():
    assert jar("s=V; Expires=tomorrow").header("/", 1e9) == "s=V"


def test_a_cookie_too_large_for_browsers_is_ignored():
    fits = "s=" + "V" * (MAX_SIZE - 2)
    assert jar(fits).header("/", 0) == fits
    assert jar("s=V", f"{fits}V").header("/", 0) == "s=V"


@pytest.mark.parametrize("path", ["shop", "", " ", "/x; Path=shop"])
def test_a_path_that_does_not_begin_with_a_slash_is_every_path(path):
    assert jar(f"s=V; Path={path}").header("/y/z", 0) == "s=V"


def test_an_attribute_too_long_for_browsers_is_ignored():
    assert jar(f"s=V; Path=/{'x' * MAX_ATTRIBUTE_SIZE}").header("/", 0) == "s=V"


def test_a_cookie_jars_repr_has_names_and_no_values():
    assert repr(jar("s=my-Secret", "t=my-Secret; Path=/x")) == "<CookieJar s, t>"
