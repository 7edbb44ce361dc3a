"""Session cookies are set, used and replaced as A55 says; tested from ADS bytes to RPCs."""

import logging

import pytest
import trio
from support.mesh import METHOD, Mesh, ask
from support.sessions import answer, b64, hosts, in_cookie, listen, session_filter

from trxds import RpcError, StatusCode
from trxds.testing import resources as xds

# -- when Set-Cookie comes, and where


@pytest.mark.parametrize("client_streaming", [False, True])
@pytest.mark.parametrize("server_streaming", [False, True])
async def test_all_kinds_of_rpcs_have_the_set_cookie_in_the_initial_metadata(
    autojump_clock, client_streaming, server_streaming
):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        kind = channel.method(METHOD, client_streaming=client_streaming, server_streaming=server_streaming)
        async with kind.open(*(() if client_streaming else (b"",))) as call:
            if client_streaming:
                await call.send(b"")
                call.done_sending()
            await call.receive()
            assert len(call.initial_metadata.all("set-cookie")) == 1
            assert call.trailing_metadata.all("set-cookie") == []


async def test_an_rpc_that_fails_after_its_headers_has_the_set_cookie_in_them(autojump_clock):
    async def fail(call):
        await call.send_initial_metadata()
        call.abort(StatusCode.INTERNAL, "no")

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].fallback = fail
        with pytest.raises(RpcError) as failed:
            await ask(channel)
        assert len(failed.value.initial_metadata.all("set-cookie")) == 1
        assert failed.value.trailing_metadata.all("set-cookie") == []


async def test_a_trailers_only_response_has_the_set_cookie_in_the_trailing_metadata(autojump_clock):
    async def fail(call):
        call.abort(StatusCode.NOT_FOUND, "no")

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].fallback = fail
        with pytest.raises(RpcError) as failed:
            await ask(channel)
        assert len(failed.value.trailing_metadata.all("set-cookie")) == 1


async def test_an_rpc_that_reached_no_host_has_no_set_cookie(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.plane.put({**xds.cluster("cart"), "circuit_breakers": {"thresholds": [{"max_requests": 0}]}})
        with pytest.raises(RpcError) as failed:
            await ask(channel)
        both = (*failed.value.initial_metadata, *failed.value.trailing_metadata)
        assert [key for key, _ in both if key == "set-cookie"] == []


async def test_the_servers_own_set_cookie_stays_before_the_sessions(autojump_clock):
    async def own(call):
        await call.send_initial_metadata([("set-cookie", "mine=1")])
        await call.send(b"")

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].fallback = own
        mine, ours = (await answer(channel)).cookies
        assert mine == "mine=1"
        assert ours.startswith("session=")


async def test_the_session_cookie_is_sent_to_the_backend_unchanged(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        sent = [("cookie", "x=1; session=???"), ("cookie", "y=2")]
        await answer(channel, metadata=sent)
        (call,) = mesh.servers[mesh.hosts[0]].calls
        assert [pair for pair in call.metadata if pair[0] == "cookie"] == sent


async def test_all_attempts_of_an_rpc_go_to_the_cookies_host(autojump_clock):
    async def refuse(call):
        call.abort(StatusCode.UNAVAILABLE, "not now")

    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        host = mesh.hosts[0]
        for server in mesh.servers.values():
            server.fallback = refuse
        entry = xds.route("cart")
        entry["route"]["retry_policy"] = {"retry_on": "unavailable", "num_retries": 3}
        mesh.route(entry)
        with pytest.raises(RpcError):
            await answer(channel, f"{host};cart")
        assert {address: len(server.calls) for address, server in mesh.servers.items() if server.calls} == {host: 4}


# -- who is honoured


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("{};cart", False),
        ("{}", True),
        ("{};", True),
        ("{};elsewhere", True),
        ("{};cart;more", True),
        ("10.9.9.9:1,{};cart", True),
        ("{},10.9.9.9:1;cart", True),
        ("{};cluster:cart", False),
    ],
)
async def test_a_cookies_host_is_used_and_another_clients_form_is_replaced(autojump_clock, text, again):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        host = mesh.hosts[1]
        cookie = text.format(host)
        assert await hosts(channel, cookie) == {host}
        assert (await answer(channel, cookie)).said == (f"{host};cart" if again else "")


@pytest.mark.parametrize("text", ["", "nonsense", "10.0.1.1", "localhost:50051;cart", "10.0.1.1:50051 ;cart", ";cart"])
async def test_a_cookie_that_names_no_host_is_replaced_by_one_that_does(autojump_clock, text):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        assert (await answer(channel, text)).said == f"{mesh.hosts[0]};cart"


async def test_the_first_usable_address_of_a_cookie_is_used(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        a, _, c = mesh.hosts
        await ask(channel)
        await trio.sleep(1)
        assert await hosts(channel, f"{c},{a};cart") == {c}


async def test_the_session_cookie_is_found_in_the_second_cookie_header(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        cookies = [("cookie", "a=1"), ("cookie", f"b=2;session={b64(mesh.hosts[2])}")]
        assert await hosts(channel, metadata=cookies) == {mesh.hosts[2]}


async def test_the_first_cookie_of_a_name_counts_even_if_it_is_bad(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        await ask(channel)
        await trio.sleep(1)
        cookies = [("cookie", f"session=!; session={b64(mesh.hosts[2])}")]
        assert await hosts(channel, metadata=cookies) == set(mesh.hosts)


async def test_no_session_cookie_is_read_or_set_outside_its_path(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        listen(mesh, session_filter(state=in_cookie(path="/shop.Cart/Ad")))
        host = mesh.hosts[0]
        await trio.sleep(1)
        assert await hosts(channel, f"{host};cart") == set(mesh.hosts)
        assert (await answer(channel)).cookies == []


class TestBadAddresses:
    async def warnings(self, caplog, *cookies, times=3):
        with caplog.at_level(logging.WARNING, "trxds.session_affinity"):
            async with Mesh.run(1) as mesh, mesh.channel() as channel:
                for cookie in cookies:
                    for _ in range(times):
                        await answer(channel, metadata=[("cookie", f"session={cookie}")])
        return [record.getMessage() for record in caplog.records if record.name == "trxds.session_affinity"]

    async def test_each_cookie_with_a_bad_address_is_logged_once(self, autojump_clock, caplog):
        bad = await self.warnings(caplog, b64("localhost:1;cart"), "!!!")
        assert bad == [
            "cookie 'session' holds no address; its RPCs may go to any host",
        ]

    async def test_a_cookie_with_an_unknown_host_is_not_logged(self, autojump_clock, caplog):
        assert await self.warnings(caplog, b64("10.9.9.9:1;cart"), b64("[::1]:1,10.9.9.9:1")) == []


# -- two filters in one chain


class TestTwoFilters:
    def listen(self, mesh):
        listen(mesh, *(session_filter(name, in_cookie(name)) for name in ("one", "two")))

    async def test_two_session_filters_set_both_cookies(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            given = await answer(channel)
            text = b64(f"{given.host};cart")
            assert sorted(given.cookies) == [f"one={text}; HttpOnly", f"two={text}; HttpOnly"]

    @pytest.mark.parametrize("name", ["one", "two"])
    async def test_either_cookie_of_two_session_filters_is_enough_and_the_other_is_set(self, autojump_clock, name):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            cookie = f"{mesh.hosts[2]};cart"
            assert await hosts(channel, cookie, name=name) == {mesh.hosts[2]}
            (other,) = (await answer(channel, cookie, name=name)).cookies
            assert not other.startswith(name)

    async def test_the_later_session_filters_cookie_wins(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            a, _, c = (b64(f"{host};cart") for host in mesh.hosts)
            assert await hosts(channel, metadata=[("cookie", f"one={a}; two={c}")]) == {mesh.hosts[2]}

    async def test_a_session_keeps_the_cookies_of_two_filters_and_stays(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            self.listen(mesh)
            assert len(await hosts(session)) == 1
            assert (await answer(session)).cookies == []
