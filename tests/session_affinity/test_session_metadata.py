"""A session adds its cookies and headers to the metadata of its calls."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from trxds.core.metadata import Metadata
from trxds.lb.pick import PickArgs
from trxds.session_affinity.session import SessionCookies
from trxds.session_affinity.session_hosts import CookieKey

OWN = Metadata([("user", "7"), ("cookie", "mine=1")])
CALL = PickArgs("/shop/Add", OWN)


@pytest.fixture
async def session() -> SessionCookies:
    session = SessionCookies()
    session.record_response(Metadata([("set-cookie", "s=V; Path=/shop; Max-Age=60")]), CALL, session.view)
    return session


async def test_equal_calls_of_a_session_get_one_metadata_object(session: SessionCookies) -> None:
    filled = session.metadata.fill(OWN, "/shop/Add")
    assert filled == (("user", "7"), ("cookie", "s=V; mine=1"))
    assert session.metadata.fill(OWN, "/shop/Drop") is filled


async def test_a_change_of_path_metadata_or_cookie_makes_new_metadata(
    session: SessionCookies, mock_clock: MockClock
) -> None:
    session.metadata.fill(OWN, "/shop/Add")
    assert session.metadata.fill(OWN, "/other/Add") == OWN
    assert session.metadata.fill(Metadata([("user", "8")]), "/shop/Add") == (("user", "8"), ("cookie", "s=V"))
    session.record_response(Metadata([("set-cookie", "s=W; Path=/shop; Max-Age=60")]), CALL, session.view)
    assert session.metadata.fill(OWN, "/shop/Add") == (("user", "7"), ("cookie", "s=W; mine=1"))
    mock_clock.jump(61)
    assert session.metadata.fill(OWN, "/shop/Add") == OWN


@pytest.mark.parametrize("value", ["\xfc", "a\0b", "a\r\nb", "a" * 4097])
async def test_a_session_header_that_no_request_may_have_is_not_sent_back(session: SessionCookies, value: str) -> None:
    call = PickArgs("/shop/Add", OWN, session_headers=("x-session",))
    session.record_response(Metadata([("x-session", value), ("set-cookie", f"s={value}")]), call, session.view)
    assert session.metadata.fill(OWN, "/shop/Add") == (("user", "7"), ("cookie", "s=V; mine=1"))


async def test_a_session_header_that_is_stale_is_not_sent_back(session: SessionCookies) -> None:
    call, response = PickArgs("/shop/Add", OWN, session_headers=("x-session",)), Metadata([("x-session", "old")])
    assert session.metadata.store((), response, call, lambda key: key == CookieKey("x-session", "")) == []
    assert session.metadata.header_names == set()


async def test_the_callers_own_session_header_is_sent_in_place_of_the_sessions(session: SessionCookies) -> None:
    call = PickArgs("/other/Add", OWN, session_headers=("x-session",))
    session.record_response(Metadata([("x-session", "kept")]), call, session.view)
    own = Metadata([("x-session", "own")])
    assert session.metadata.fill(own, "/other/Add") == own
