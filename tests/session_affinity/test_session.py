"""A session keeps the host of each cookie, and the call whose pick chose it."""

from __future__ import annotations

import pytest
from support.sessions import b64

from trxds.core.metadata import EMPTY, Metadata
from trxds.lb.override_host.repin_reason import RepinReason
from trxds.lb.pick import Override, PickArgs
from trxds.session_affinity.session import SessionCookies
from trxds.session_affinity.session_events import SessionMoved, SessionPinned
from trxds.session_affinity.session_hosts import CookieKey, SessionHost
from trxds.session_affinity.session_token import SessionToken, TokenCookie, decode_token, encode_token

CART, ORDERS = CookieKey("cart", "/shop.Cart"), CookieKey("orders", "/shop.Orders")
USER = Metadata([("user", "7")])


class Listener:
    def __init__(self) -> None:
        self.told: list[object] = []

    def find_change(self, host: SessionHost, reason: RepinReason) -> str:
        return ""

    def session_pinned(
        self, session: SessionCookies, before: SessionHost | None, event: SessionPinned | SessionMoved
    ) -> None:
        self.told.append(event)

    def session_unpinned(self, session: SessionCookies, key: CookieKey, before: SessionHost) -> None:
        self.told.append(key)


def call_to(host: str, path: str, cluster: str = "shop", metadata: Metadata = EMPTY) -> PickArgs:
    return PickArgs(path, metadata, None, cluster, Override((host,), host))


def set_cookie(key: CookieKey, host: str) -> Metadata:
    return Metadata([("set-cookie", f"{key.name}={b64(f'{host};shop')}; Path={key.path}")])


@pytest.fixture
async def imported() -> SessionCookies:
    """A session of a token, with a host for each of two services."""
    session = SessionCookies()
    hosts = {CART: "10.0.0.1:80", ORDERS: "10.0.0.2:80"}
    cookies = [TokenCookie(key.name, key.path, b64(f"{host};shop"), None) for key, host in hosts.items()]
    session.restore(SessionToken("xds:///shop", tuple(cookies), ()))
    return session


async def test_an_imported_cookie_keeps_the_first_call_that_used_it(imported: SessionCookies) -> None:
    imported.record_response(EMPTY, call_to("10.0.0.1:80", "/shop.Cart/Add", metadata=USER), imported.view)
    # Until the other cookie is used too, each response may complete it.
    imported.record_response(EMPTY, call_to("10.0.0.1:80", "/shop.Cart/Drop"), imported.view)
    assert (imported.pins[CART].path, imported.pins[CART].metadata) == ("/shop.Cart/Add", USER)


async def test_each_imported_cookie_is_completed_by_the_first_call_that_uses_it(imported: SessionCookies) -> None:
    imported.record_response(EMPTY, call_to("10.0.0.2:80", "/shop.Orders/Get"), imported.view)
    imported.record_response(EMPTY, call_to("10.0.0.1:80", "/shop.Cart/Add"), imported.view)
    assert {key: pin.path for key, pin in imported.pins.items()} == {CART: "/shop.Cart/Add", ORDERS: "/shop.Orders/Get"}


async def test_a_call_that_uses_no_imported_cookie_completes_none(imported: SessionCookies) -> None:
    imported.record_response(EMPTY, call_to("10.0.0.3:80", "/shop.Stock/Get"), imported.view)
    imported.record_response(EMPTY, PickArgs("/shop.Cart/Add"), imported.view)  # its route has no session filter
    assert [pin.path for pin in imported.pins.values()] == ["", ""]
    imported.record_response(EMPTY, call_to("10.0.0.1:80", "/shop.Cart/Add"), imported.view)
    assert imported.pins[CART].path == "/shop.Cart/Add"


async def test_a_response_after_the_end_of_the_session_is_not_reported() -> None:
    listener = Listener()
    session = SessionCookies(listener=listener)
    session.record_response(set_cookie(CART, "10.0.0.1:80"), call_to("10.0.0.1:80", "/shop.Cart/Add"), session.view)
    assert len(listener.told) == 1
    # Calls are cancelled when their session ends, but headers may come before they notice it. Who counts the sessions
    # of a host would count this one for ever.
    session.detach()
    session.record_response(set_cookie(CART, "10.0.0.2:80"), call_to("10.0.0.2:80", "/shop.Cart/Add"), session.view)
    assert len(listener.told) == 1


async def test_a_new_cookie_for_the_same_host_is_no_move() -> None:
    session = SessionCookies()
    call = call_to("10.0.0.1:80", "/shop.Cart/Add")
    assert isinstance(session.record_response(set_cookie(CART, "10.0.0.1:80"), call, session.view), SessionPinned)
    # Its address list is another one by now, say.
    assert session.record_response(set_cookie(CART, "10.0.0.1:80"), call, session.view) is None
    assert session.moves == 0


async def test_a_cookie_replaces_those_of_longer_paths_of_its_name_only() -> None:
    session, call = SessionCookies(), call_to("10.0.0.1:80", "/shop.Cart/Add")
    other, shorter = CookieKey("other", "/shop.Cart"), CookieKey("cart", "/")
    for key in (CART, other, shorter):
        session.record_response(set_cookie(key, "10.0.0.1:80"), call, session.view)
    assert list(session.pins) == [other, shorter]


async def test_a_cookie_of_a_shorter_path_leaves_the_one_of_another_service() -> None:
    session, everywhere = SessionCookies(), CookieKey(CART.name, "/")
    session.record_response(set_cookie(CART, "10.0.0.1:80"), call_to("10.0.0.1:80", "/shop.Cart/Add"), session.view)
    orders = call_to("10.0.0.2:80", "/shop.Orders/Get")
    session.record_response(set_cookie(everywhere, "10.0.0.2:80"), orders, session.view)
    assert {key: pin.host.host for key, pin in session.pins.items()} == {CART: "10.0.0.1:80", everywhere: "10.0.0.2:80"}


async def test_a_session_that_comes_back_to_the_host_it_gave_up_has_not_moved() -> None:
    listener = Listener()
    session = SessionCookies(listener=listener)
    call = call_to("10.0.0.1:80", "/shop.Cart/Add")
    session.record_response(set_cookie(CART, "10.0.0.1:80"), call, session.view)
    session.release(CART, RepinReason.REQUESTED)
    assert session.record_response(set_cookie(CART, "10.0.0.1:80"), call, session.view) is None
    assert session.moves == 0
    assert [type(each) for each in listener.told] == [SessionPinned, CookieKey, SessionPinned]


@pytest.mark.parametrize("released", [False, True])
async def test_a_move_to_a_cookie_of_another_name_leaves_the_old_one_behind(released: bool) -> None:
    session = SessionCookies()
    session.record_response(set_cookie(CART, "10.0.0.1:80"), call_to("10.0.0.1:80", "/shop.Cart/Add"), session.view)
    source, since = session.copy(), session.copy(without=[CART])
    target, renamed = since.copy(), CookieKey("basket", "/shop.Cart")
    response = set_cookie(renamed, "10.0.0.2:80")
    target.record_response(response, call_to("10.0.0.2:80", "/shop.Cart/Add"), target.view)
    if released:
        session.release(CART, RepinReason.REQUESTED)
    session.switch([CART], since, source, target)
    assert {key: pin.host.host for key, pin in session.pins.items()} == {renamed: "10.0.0.2:80"}
    assert session.metadata.fill(EMPTY, "/shop.Cart/Add") == (("cookie", f"basket={b64('10.0.0.2:80;shop')}"),)
    if not released:
        assert session.last_move is not None and session.moves == 1
        assert (session.last_move.old.host, session.last_move.reason) == ("10.0.0.1:80", RepinReason.REQUESTED)


async def test_calls_that_wait_since_one_release_go_on_to_wait_for_the_call_after_the_next(
    imported: SessionCookies,
) -> None:
    imported.release(CART, RepinReason.REQUESTED)
    first = imported.view.first_call
    assert not first.is_over
    imported.release(ORDERS, RepinReason.REQUESTED)
    assert first.is_over and not imported.view.first_call.is_over


async def test_a_cookie_of_the_servers_own_that_names_a_host_can_be_given_up() -> None:
    session = SessionCookies()
    session.record_response(set_cookie(CART, "10.0.0.9:80"), call_to("10.0.0.1:80", "/shop.Cart/Add"), session.view)
    assert (list(session.hosts(0.0)), session.pins) == ([CART], {})
    session.release(CART, RepinReason.RELEASED)
    assert session.hosts(0.0) == {}


async def test_a_session_that_gives_one_of_two_cookies_up_is_on_the_host_of_the_other() -> None:
    session = SessionCookies()
    for key, host in ((CART, "10.0.0.1:80"), (ORDERS, "10.0.0.2:80")):
        session.record_response(set_cookie(key, host), call_to(host, f"{key.path}/Add"), session.view)
    session.release(ORDERS, RepinReason.RELEASED)
    assert (session.host, session.cluster) == ("10.0.0.1:80", "shop")
    session.release(CART, RepinReason.RELEASED)
    assert (session.host, session.cluster) == ("", "")


async def test_a_session_has_the_host_that_its_server_writes_over_the_one_of_the_filter() -> None:
    session, call = SessionCookies(), call_to("10.0.0.1:80", "/shop.Cart/Add")
    session.record_response(set_cookie(CART, "10.0.0.1:80"), call, session.view)
    session.record_response(set_cookie(CART, "10.0.0.9:80"), call, session.view)
    assert session.hosts(0.0) == {CART: SessionHost("10.0.0.9:80", "shop")}


async def test_of_two_cookies_in_one_response_the_move_is_the_event() -> None:
    session = SessionCookies()
    session.record_response(set_cookie(CART, "10.0.0.1:80"), call_to("10.0.0.1:80", "/shop.Cart/Add"), session.view)
    both = Metadata([*set_cookie(ORDERS, "10.0.0.2:80"), *set_cookie(CART, "10.0.0.2:80")])
    event = session.record_response(both, call_to("10.0.0.2:80", "/shop.Cart/Add"), session.view)
    assert isinstance(event, SessionMoved) and event.cookie == CART


async def test_a_token_of_a_cookie_that_outlasts_all_dates_can_be_read() -> None:
    session = SessionCookies()
    ((name, value),) = set_cookie(CART, "10.0.0.1:80")
    lasting = Metadata([(name, f"{value}; Max-Age=1000000000000")])
    session.record_response(lasting, call_to("10.0.0.1:80", "/shop.Cart/Add"), session.view)
    exported = session.export("xds:///shop", 0.0)
    assert decode_token(encode_token(exported), "xds:///shop") == exported


def moving(session: SessionCookies, key: CookieKey, host: str) -> tuple[SessionCookies, SessionCookies, SessionCookies]:
    """Return the cookies that a move of `key` to that host begins with, and those of its two hosts."""
    before = session.copy(without=session.keys_like(key))
    target = before.copy()
    target.record_response(set_cookie(key, host), call_to(host, f"{key.path}/Add"), target.view)
    return before, session.copy(), target


def respond(session: SessionCookies, key: CookieKey, host: str) -> None:
    session.record_response(set_cookie(key, host), call_to(host, f"{key.path}/Add"), session.view)


async def test_a_move_that_began_before_a_release_is_why_the_session_moves() -> None:
    session = SessionCookies()
    respond(session, CART, "10.0.0.1:80")
    before, source, target = moving(session, CART, "10.0.0.2:80")
    session.release(CART, RepinReason.RELEASED)
    session.switch((CART,), before, source, target)
    assert session.last_move is not None and session.last_move.reason is RepinReason.REQUESTED


async def test_a_move_leaves_the_cookies_of_other_services_where_calls_have_taken_them_meanwhile() -> None:
    session = SessionCookies()
    for key in (CART, ORDERS):
        respond(session, key, "10.0.0.1:80")
    assert session.keys_like(CART) == (CART,)
    before, source, target = moving(session, CART, "10.0.0.2:80")
    respond(session, ORDERS, "10.0.0.3:80")
    session.switch((CART,), before, source, target)
    assert [session.pins[key].host.host for key in (CART, ORDERS)] == ["10.0.0.2:80", "10.0.0.3:80"]


@pytest.mark.parametrize("name", ["set-cookie", "x-user"])
async def test_a_move_keeps_the_other_values_that_calls_have_brought_meanwhile(name: str) -> None:
    session, call = SessionCookies(), call_to("10.0.0.1:80", "/shop.Cart/Add")
    call.session_headers = ("x-user",)
    session.record_response(Metadata([(name, "x=old")]), call, session.view)
    respond(session, CART, "10.0.0.1:80")
    before, source, target = moving(session, CART, "10.0.0.2:80")
    session.record_response(Metadata([(name, "x=new")]), call, session.view)
    session.switch((CART,), before, source, target)
    assert "x=new" in str([*session.metadata.fill(EMPTY, "/shop.Cart/Add")])


async def test_a_move_keeps_what_calls_to_the_old_host_have_brought_meanwhile() -> None:
    session = SessionCookies()
    respond(session, CART, "10.0.0.1:80")
    before, source, target = moving(session, CART, "10.0.0.2:80")
    theme = Metadata([("set-cookie", "theme=dark")])
    source.record_response(theme, call_to("10.0.0.1:80", "/shop.Cart/Add"), source.view)
    session.switch((CART,), before, source, target)
    (sent,) = session.metadata.fill(EMPTY, "/shop.Cart/Add").all("cookie")
    assert "theme=dark" in str(sent)
    assert session.host == "10.0.0.2:80"


async def test_calls_that_are_bound_to_a_host_send_the_sessions_other_cookies() -> None:
    session = SessionCookies()
    respond(session, CART, "10.0.0.1:80")
    session.record_response(
        Metadata([("set-cookie", "theme=dark")]), call_to("10.0.0.1:80", "/shop.Cart"), session.view
    )
    bound = session.copy(without=(CART,))
    assert bound.metadata.fill(EMPTY, "/shop.Cart/Add").all("cookie") == ["theme=dark"]


async def test_a_response_to_a_call_that_is_bound_to_the_sessions_host_is_no_event() -> None:
    session = SessionCookies()
    respond(session, CART, "10.0.0.1:80")
    bound, call = session.copy(), call_to("10.0.0.1:80", "/shop.Cart/Add")
    assert bound.record_response(set_cookie(CART, "10.0.0.1:80"), call, bound.view) is None


@pytest.mark.parametrize(
    ("host", "path", "cluster", "leaves"),
    [
        ("10.0.0.1:80", "/shop.Cart/Add", "new", True),
        ("10.0.0.1:80", "/shop.Cart/Add", "shop", False),
        ("10.0.0.2:80", "/shop.Cart/Add", "new", False),  # the caller's own cookie
        ("10.0.0.1:80", "/shop.Orders/Add", "new", False),
    ],
)
async def test_a_call_leaves_the_cluster_of_its_cookies_host(host: str, path: str, cluster: str, leaves: bool) -> None:
    session = SessionCookies()
    respond(session, CART, "10.0.0.1:80")
    assert session.leaves_cluster(call_to(host, path, cluster)) == leaves


async def test_a_call_without_a_session_filter_leaves_no_cluster() -> None:
    session = SessionCookies()
    respond(session, CART, "10.0.0.1:80")
    assert not session.leaves_cluster(PickArgs("/shop.Cart/Add", EMPTY, None, "new"))


async def test_what_a_server_has_put_in_the_place_of_a_host_is_not_exported() -> None:
    session, call = SessionCookies(), call_to("10.0.0.1:80", "/shop.Cart/Add")
    call.session_headers = ("x-session",)
    respond(session, CART, "10.0.0.1:80")
    own = Metadata([("set-cookie", f"{CART.name}=own; Path={CART.path}"), ("x-session", "own")])
    session.record_response(own, call, session.view)
    assert session.export("xds:///shop", 0.0) == SessionToken("xds:///shop", (), ())


async def test_a_cookie_that_deletes_itself_binds_no_session_to_a_host() -> None:
    session = SessionCookies()
    ((_, value),) = set_cookie(CART, "10.0.0.1:80")
    call = call_to("10.0.0.1:80", "/shop.Cart/Add")
    session.record_response(Metadata([("set-cookie", f"{value}; Max-Age=0")]), call, session.view)
    assert session.pins == {}
