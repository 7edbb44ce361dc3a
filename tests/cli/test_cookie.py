"""`trxds cookie` shows what a session cookie holds, and says of any other text why it names no host."""

import base64
import json

import pytest
from click.testing import CliRunner
from support.sessions import b64

from trxds.cli.main import main
from trxds.session_affinity.cookie import MAX_HOSTS, MAX_SIZE


def run(*command):
    return CliRunner().invoke(main, ["cookie", *command])


def envoys(address, expires):
    """A cookie in Envoy's form; `expires` is the varint of seconds since 1970."""
    text = address.encode()
    return base64.b64encode(b"\x0a" + bytes([len(text)]) + text + b"\x10" + expires).decode()


@pytest.mark.parametrize("form", ["{}", "session={}", "grpc-session={}", '"{}"'])
def test_a_cookie_is_read_with_its_name_or_without(form):
    done = run(form.format(b64("10.0.0.1:80,10.0.0.2:80;cart")))
    assert done.output.splitlines() == ["hosts: 10.0.0.1:80, 10.0.0.2:80", "cluster: cart"]
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "it is empty"),
        ("session=", "it is base64 of bytes that are no text"),  # of the bytes that the name itself stands for
        ("foo", "it is base64 of bytes that are no text"),
        ("session=foo", "it is base64 of bytes that are no text"),
        ("!!", "it is not base64, which has no '!' (character 1)"),
        ("session=MTI3; Path=/", "it is not base64, which has no ';' (character 13)"),
        ("n=MTAuMC4wLjE6ODA7Yw==; Path=/", "it is not base64, which has no ';' (character 23)"),
        ('n="MTAuMC4wLjE6ODA7Y"x', "it is not base64, which has no '\"' (character 21)"),
        ("MTAuMC4wLjE6ODA%3D", "it is not base64, which has no '%' (character 16)"),
        (
            "MTAuMC4wLjE6ODA7Y",
            "it is not base64, or a part of it is missing: its length, or the '=' in it, does not fit",
        ),
        ("A" * (MAX_SIZE + 1), "clients read 4096 characters of a value at most"),
        (b64('{"alg":"HS256"}'), "it is base64 of a text without an address ip:port or unix:path"),
        (b64("cart.example:80"), "it is base64 of a text without an address ip:port or unix:path"),
        (
            b64(";cart"),
            "it is base64 of a text without an address ip:port or unix:path, and clients use its cluster alone",
        ),
        (
            b64("nowhere;cart"),
            "it is base64 of a text without an address ip:port or unix:path, and clients use its cluster alone",
        ),
        (envoys("", b"\x01"), "it is base64 of a text without an address ip:port or unix:path"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_text_that_names_no_host_exits_1_and_says_why(value, reason, options):
    done = run(value, *options)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"VALUE, of {len(value)} character")
    assert f"names no host: {reason}; write the value as in Set-Cookie" in done.stderr


def test_a_text_that_names_no_host_is_not_shown():
    """It may be another program's secret."""
    done = run(b64("user=7;role=admin"))
    assert done.exit_code == 1
    assert "user" not in done.output and "admin" not in done.output


def test_a_good_address_among_bad_ones_says_which_are_not_used():
    done = run(b64("nowhere,10.0.0.1:80,,10.0.0.2:99999;cart"))
    assert done.output.splitlines() == [
        "hosts: nowhere, 10.0.0.1:80, (empty), 10.0.0.2:99999",
        "cluster: cart",
        "not used: nowhere, (empty), 10.0.0.2:99999, as an address is ip:port or unix:path",
    ]


def test_an_address_that_is_no_text_is_not_used_and_the_others_are():
    done = run(base64.b64encode(b"10.0.0.1:80,\xff;c").decode())
    assert (done.exit_code, done.output.splitlines()) == (
        0,
        ["hosts: 10.0.0.1:80, \ufffd", "cluster: c", "not used: \ufffd, as an address is ip:port or unix:path"],
    )


def test_a_text_like_the_one_that_stands_for_no_address_is_not_used():
    done = run(b64("10.0.0.1:80,(no address);cart"))
    assert done.output.splitlines()[-1] == "not used: (no address), as an address is ip:port or unix:path"


@pytest.mark.parametrize(("beyond", "words"), [(1, "the last address"), (2, "the last 2 addresses")])
def test_addresses_beyond_those_that_clients_read_are_counted(beyond, words):
    done = run(b64(",".join(["10.0.0.1:80"] * (MAX_HOSTS + beyond))))
    assert done.output.splitlines()[-1] == f"not used: {words}, as clients read 32 of a cookie"


def test_control_characters_of_a_foreign_cookie_are_escaped():
    done = run(b64("\x1b[2J\nhosts: 10.0.0.1:80,10.0.0.2:80;\x1b]0;cart\x07"))
    assert done.output.splitlines()[:2] == [
        r"hosts: \x1b[2J\nhosts: 10.0.0.1:80, 10.0.0.2:80",
        r"cluster: \x1b]0;cart\x07",
    ]


def test_a_cookie_as_data():
    done = run("--json", b64("10.0.0.1:80;cart"))
    assert json.loads(done.output) == {
        "addresses": ["10.0.0.1:80"],
        "cluster": "cart",
        "expires": None,
        "usable": True,
        "unused": [],
    }


def test_a_cookie_that_has_expired_says_so():
    done = run(envoys("10.0.0.1:80", b"\x01"))
    assert done.output.splitlines()[-1] == (
        "expires: 1970-01-01T00:00:01+00:00; it has expired, so calls do not use it"
    )
    assert json.loads(run("--json", envoys("10.0.0.1:80", b"\x01")).output)["usable"] is False


def test_an_expiry_beyond_all_dates_is_shown_in_seconds():
    done = run(envoys("10.0.0.1:80", b"\xff" * 9 + b"\x01"))
    assert done.exit_code == 0
    assert "expires: after the year 9999 (18446744073709551615 s since 1970)" in done.output
