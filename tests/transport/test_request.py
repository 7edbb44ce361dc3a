from __future__ import annotations

import math

import trxds
from trxds.transport.header_blocks import list_size
from trxds.transport.request import USER_AGENT, Request, RequestHeaders


def test_the_user_agent_has_the_projects_version() -> None:
    assert USER_AGENT.decode() == f"grpc-python-trxds/{trxds.__version__}"


def test_pseudo_headers_come_first() -> None:
    fields = RequestHeaders("host:1", b"http").fields("/s/M", "shop")
    assert [key for key, _ in fields[:4]] == [b":method", b":scheme", b":path", b":authority"]


def test_the_common_headers_of_a_method_are_made_once() -> None:
    headers = RequestHeaders("host:1", b"http")
    assert headers.fields("/s/M", "shop") is headers.fields("/s/M", "shop")
    assert headers.fields("/s/M", "shop") != headers.fields("/s/N", "shop")


def test_the_headers_of_any_number_of_methods_are_not_kept() -> None:
    headers = RequestHeaders("host:1", b"http")
    for number in range(3000):
        headers.fields(f"/s/{number}", "shop")
    assert len(headers._cached_fields) <= 1024


def test_headers_may_be_as_large_as_the_peers_limit_and_no_larger() -> None:
    headers = RequestHeaders("host:1", b"http")
    request = Request("/s/M", "shop", metadata=[(b"user", b"7" * 8000)])
    size = list_size([*headers.fields("/s/M", "shop"), *request.metadata])
    headers.set_limit(size)
    assert headers.size_error(request, 0.0) is None
    headers.set_limit(size - 1)
    assert headers.size_error(request, 0.0) is not None


def test_the_timeout_header_is_the_remaining_time() -> None:
    assert Request("/s/M", "shop", deadline=12.5).timeout(now=10) == [(b"grpc-timeout", b"2500000u")]
    assert Request("/s/M", "shop", deadline=9.0).timeout(now=10) == [(b"grpc-timeout", b"1n")]
    assert Request("/s/M", "shop", deadline=math.inf).timeout(now=10) == []
