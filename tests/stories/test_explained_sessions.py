"""What is explained of a call with a session: the host that its cookies name, or why no session filter takes part."""

import pytest
import trio
from support.mesh import METHOD, Mesh, ask
from support.plain import BY_NAME, hosts_in_memory

from trxds.testing import resources as xds

FAULT = "envoy.extensions.filters.http.fault.v3.HTTPFault"
NO_FILTER = "not sticky: the route has no stateful session filter; add envoy.filters.http.stateful_session to the"


async def test_a_session_explains_its_calls_with_its_own_cookies(autojump_clock):
    async with Mesh.run(5) as mesh, mesh.channel() as channel, channel.session() as session:
        host = await ask(session)
        told = await session.explain(METHOD)
        assert (told.host, told.unsticky) == (host, "")
        assert f"names {host} and cluster cart" in str(told)


async def test_a_session_that_has_ended_explains_nothing(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        async with channel.session() as session:
            pass
        with pytest.raises(trio.ClosedResourceError, match="the session's block is over"):
            await session.explain(METHOD)


async def test_an_explanation_with_a_session_says_why_no_filter_takes_part(autojump_clock):
    async with Mesh.run(2, sessions=False) as mesh, mesh.channel() as channel, channel.session() as session:
        by_session, by_cookie = await session.explain(METHOD), await channel.explain(METHOD, [("cookie", "session=x")])
        assert NO_FILTER in str(by_session) and NO_FILTER in str(by_cookie)
        assert by_cookie.as_data()["unsticky"].startswith("the route has no stateful session filter")


async def test_an_explanation_without_a_session_says_nothing_of_it(autojump_clock):
    async with Mesh.run(2, sessions=False) as mesh, mesh.channel() as channel:
        told = await channel.explain(METHOD, [("tenant", "7")])
        assert (told.unsticky, "sticky" in str(told)) == ("", False)


async def test_a_cookie_path_that_does_not_cover_the_method_is_the_reason(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
        mesh.listen(path="/shop.Orders")
        await trio.sleep(1)
        told = await session.explain(METHOD)
        assert "not sticky: the session filter's cookie has the path /shop.Orders" in str(told)


async def test_a_cookie_name_that_no_client_sends_back_is_the_reason(autojump_clock):
    async with Mesh.run(2) as mesh:
        mesh.listen(cookie="a=b")
        async with mesh.channel() as channel, channel.session() as session:
            told = await session.explain(METHOD)
            assert "not sticky: the session filter's cookie has the name 'a=b'" in str(told)


async def test_a_target_without_a_control_plane_names_what_configures_the_cookie(autojump_clock):
    async with hosts_in_memory(2) as mesh, mesh.channel(BY_NAME) as channel, channel.session() as session:
        told = await session.explain(METHOD)
        assert "not sticky: the target has no control plane, and the program configures no cookie" in str(told)


async def test_behind_a_fault_that_ends_the_call_nothing_is_said_of_sessions(autojump_clock):
    abort = {"http_status": 503, "percentage": {"numerator": 100, "denominator": "HUNDRED"}}
    fault = {"name": "fault", "typed_config": {"@type": f"type.googleapis.com/{FAULT}", "abort": abort}}
    async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
        mesh.plane.put(xds.listener("shop", routes="routes", filters=[fault, xds.stateful_session()]))
        await trio.sleep(1)
        told = await session.explain(METHOD)
        assert (bool(told.faults), told.unsticky) == (True, "")
