"""The cookie jar of a session."""

import pytest

from trxds.affinity.jar import MOST, CookieJar


def jar(*headers, now=0.0):
    made = CookieJar()
    for header in headers:
        made.take(header, now)
    return made


def test_a_cookie_comes_back():
    assert jar("s=V; HttpOnly").header("/a/b", 0) == "s=V"


def test_a_newer_value_replaces_the_older():
    assert jar("s=1", "s=2").header("/", 0) == "s=2"


def test_several_cookies_share_a_header_the_longest_path_first():
    assert jar("a=1", "b=2; Path=/x", "c=3; Path=/x/y").header("/x/y", 0) == "c=3; b=2; a=1"


def test_a_cookie_of_another_path_stays_in_the_jar():
    assert jar("s=V; Path=/x").header("/y", 0) == ""


def test_max_age_ends_it():
    made = jar("s=V; Max-Age=10", now=5)
    assert made.header("/", 14.9) == "s=V"
    assert made.header("/", 15) == ""


@pytest.mark.parametrize("age", ["0", "-1"])
def test_max_age_of_nothing_deletes_it(age):
    assert jar("s=V", f"s=; max-age={age}").header("/", 0) == ""


@pytest.mark.parametrize("header", ["", "nothing", "=V", ";"])
def test_what_is_no_cookie_is_left_out(header):
    assert jar(header).header("/", 0) == ""


def test_an_age_that_is_no_number_is_none():
    assert jar("s=V; Max-Age=soon").header("/", 1e9) == "s=V"


def test_a_max_age_of_hundreds_of_digits_is_none():
    assert jar(f"s=V; Max-Age={'9' * 400}", f"t=W; Max-Age={'9' * 5000}").header("/", 1e9) == "s=V; t=W"


def test_a_server_that_makes_up_names_does_not_fill_the_memory_nor_push_out_the_session():
    made = jar("s=V", *(f"id-{n}={n}" for n in range(1000)))
    assert made.header("/", 0).startswith("s=V; ")
    assert len(made.header("/", 0).split("; ")) == MOST
    made.take("s=W", 0)
    assert "s=W" in made.header("/", 0)


def test_cookies_that_have_expired_make_room():
    made = jar(*(f"id-{n}={n}; Max-Age=5" for n in range(1000)))
    made.take("s=V", 10)
    assert made.header("/", 10) == "s=V"


@pytest.mark.parametrize("header", ["s=\xfc", "s=a\0b", "s=a\r\nb", "\xfc=V"])
def test_what_no_request_could_carry_is_passed_over(header):
    assert jar("s=V", header).header("/", 0) == "s=V"
