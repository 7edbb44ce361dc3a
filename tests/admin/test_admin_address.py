"""Where the admin surface may be served, and who may ask: decided by values."""

import pytest

from trxds.admin import Admin
from trxds.admin.access import AccessPolicy
from trxds.admin.http import HttpRequest

TOKEN = "0123456789abcdef"


def refusal(admin, host, authorization=""):
    """What a command is told that asks for that host."""
    headers = {"host": host, "authorization": authorization}
    return AccessPolicy(admin).check_command(HttpRequest("GET", "/state", headers))


@pytest.mark.parametrize(
    "address", ["unix:/run/x.sock", "127.0.0.1:9901", "127.0.0.1:65535", "[::1]:0", "localhost:9901"]
)
def test_a_unix_socket_and_loopback_need_no_token(address):
    assert AccessPolicy(Admin(address)).admits("")


@pytest.mark.parametrize("address", ["0.0.0.0:9901", "[::]:9901", "10.0.0.1:9901"])
def test_an_admin_address_that_others_can_reach_needs_a_token(address):
    with pytest.raises(ValueError, match=r"can be reached from other machines: take 127\.0\.0\.1 or unix:/path"):
        Admin(address)
    assert AccessPolicy(Admin(address, TOKEN)).admits(f"Bearer {TOKEN}")


@pytest.mark.parametrize("shown", ["", "Bearer ", "Bearer fedcba9876543210", f"Basic {TOKEN}", "Bearer ÿ"])
def test_a_missing_token_and_a_wrong_one_are_rejected(shown):
    assert not AccessPolicy(Admin("127.0.0.1:0", TOKEN)).admits(shown)


@pytest.mark.parametrize(
    "address", ["", "unix:", "/run/x.sock", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:65536", "here:1", "9901"]
)
def test_an_invalid_admin_address_is_named_in_the_error(address):
    with pytest.raises(ValueError, match="admin is"):
        Admin(address)


def test_a_path_that_is_too_long_for_a_socket_is_named():
    assert Admin("unix:/" + "x" * 106)
    with pytest.raises(ValueError, match="admin's path has 108 bytes, and a socket's may have 107"):
        Admin("unix:/" + "x" * 107)


def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused():
    for token in ("short", "with spaces in it ok", "ü" * 16):
        with pytest.raises(ValueError, match=r"secrets\.token_urlsafe"):
            Admin("127.0.0.1:0", token)


@pytest.mark.parametrize("host", ["localhost:9901", "127.0.0.1:9901", "[::1]:9901", "127.0.0.1"])
def test_a_request_for_an_ip_address_or_localhost_is_accepted(host):
    assert refusal(Admin("127.0.0.1:9901"), host) is None


@pytest.mark.parametrize("host", ["", "evil.example:9901", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "[::1"])
def test_a_request_for_another_host_name_is_rejected(host):
    assert refusal(Admin("127.0.0.1:9901"), host).status == 421


def test_a_request_with_the_token_may_have_any_host():
    assert refusal(Admin("0.0.0.0:9901", TOKEN), "shop.internal:9901", f"Bearer {TOKEN}") is None


def test_a_request_over_a_unix_socket_may_have_any_host():
    assert refusal(Admin("unix:/run/x.sock"), "shop.internal") is None


@pytest.mark.parametrize("authorization", ["Bearer fedcba9876543210", "Basic YTpi"])
def test_without_a_token_a_request_may_have_any_authorization(authorization):
    assert refusal(Admin("127.0.0.1:9901"), "localhost:9901", authorization) is None


def test_the_token_is_not_in_the_repr():
    assert TOKEN not in repr(Admin("127.0.0.1:0", TOKEN))
