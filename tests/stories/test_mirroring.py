"""Mirroring: copies of calls go to another cluster, and the calls do not notice (Envoy's request_mirror_policies)."""

from __future__ import annotations

import contextvars
import logging

import pytest
import trio
from support.logs import lines
from support.mesh import METHOD, ask, method
from support.mirroring import mirrored, settled, shadowed, share
from support.pki import Authority
from support.sessions import in_header, listen, session_filter

import trxds
from trxds import CallCredentials, Mirroring, RpcError, StatusCode
from trxds.client.mirror import Mirror
from trxds.testing import resources as xds

FAULT = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault"


async def test_a_copy_of_a_call_goes_to_the_mirror_cluster(autojump_clock):
    async with shadowed() as made:
        assert await method(made.channel)(b"milk") == f"{made.mesh.hosts[0]} milk".encode()
        await settled()
        assert made.shadow.requests == [b"milk"]
        assert made.shadow.calls[0].path == METHOD
        [note] = made.notes.all
        assert (note.cluster, note.result, note.status.code) == ("shadow", "completed", StatusCode.OK)


async def test_without_the_argument_no_call_is_copied(autojump_clock):
    async with shadowed(mirroring=None) as made:
        await ask(made.channel)
        await settled()
        assert (made.shadow.calls, made.notes.all) == ([], [])
        assert all("shadow" not in each.names for each in made.mesh.plane.requests)


async def test_a_share_of_the_calls_is_copied(autojump_clock):
    async with shadowed({"cluster": "shadow", **share(25)}) as made:
        for _ in range(200):
            await ask(made.channel)
        await settled()
        assert 30 <= len(made.shadow.calls) <= 70


async def test_a_share_of_zero_copies_nothing(autojump_clock):
    async with shadowed({"cluster": "shadow", **share(0)}) as made:
        await ask(made.channel)
        await settled()
        assert not made.shadow.calls


async def test_each_policy_of_a_route_makes_a_copy(autojump_clock):
    async with shadowed({"cluster": "shadow"}, {"cluster": "cart"}) as made:
        await ask(made.channel)
        await settled()
        assert sorted(each.cluster for each in made.notes.all) == ["cart", "shadow"]
        assert len(made.shadow.calls) == 1


# -- the call does not notice


async def test_a_call_does_not_wait_for_its_copy(autojump_clock):
    async with shadowed() as made:
        made.shadow.seconds = 5
        before = trio.current_time()
        await ask(made.channel)
        assert trio.current_time() - before < 0.1
        assert not made.notes.all
        await trio.sleep(6)
        assert made.notes.results == ["completed"]


async def test_the_status_of_a_copy_does_not_reach_the_call(autojump_clock):
    async with shadowed() as made:
        made.shadow.code = StatusCode.UNAVAILABLE
        assert await ask(made.channel) == made.mesh.hosts[0]
        await settled()
        assert [each.status.code for each in made.notes.all] == [StatusCode.UNAVAILABLE]


async def test_a_failed_copy_is_not_repeated(autojump_clock):
    retrying = mirrored(retry_policy={"retry_on": "unavailable", "num_retries": 3})
    async with shadowed() as made:
        made.mesh.route(retrying)
        made.shadow.code = StatusCode.UNAVAILABLE
        await ask(made.channel)
        await trio.sleep(5)
        assert len(made.shadow.calls) == 1


async def test_a_bug_in_a_copy_is_logged_and_harms_no_call(autojump_clock, monkeypatch, caplog):
    async def broken(self, stream):
        raise KeyError("bug")

    monkeypatch.setattr(Mirror, "_exchange", broken)
    async with shadowed() as made:
        assert await ask(made.channel) == made.mesh.hosts[0]
        await settled()
        assert await ask(made.channel) == made.mesh.hosts[0]
        await settled()
        assert made.notes.results == ["not_sent", "not_sent"]
    assert f"a copy of the call to {METHOD} raised; please report it" in caplog.text


async def test_a_retry_is_not_copied_again(autojump_clock):
    failures = [StatusCode.UNAVAILABLE] * 2

    async def flaky(call):
        async for _ in call:
            pass
        if failures:
            call.abort(failures.pop(), "try again")
        await call.send(b"ok")

    async with shadowed(knobs={"handlers": {METHOD: flaky}}) as made:
        made.mesh.route(mirrored(retry_policy={"retry_on": "unavailable", "num_retries": 3}))
        assert await ask(made.channel) == "ok"
        await trio.sleep(5)
        assert not failures
        assert len(made.shadow.calls) == 1


async def test_a_cookie_of_a_copy_does_not_reach_the_session(autojump_clock):
    async with shadowed(sessions=True, hosts=2) as made:
        made.shadow.headers = [("set-cookie", "session=c2hhZG93; Path=/"), ("set-cookie", "theirs=1")]
        async with made.channel.session() as session:
            first = await ask(session)
            await settled()
            assert {await ask(session) for _ in range(5)} == {first}
            assert session.host == first
        assert len(made.shadow.calls) == 6


async def test_a_load_report_of_a_copy_does_not_reach_the_call(autojump_clock):
    async with shadowed() as made:
        made.shadow.trailers = [("endpoint-load-metrics", "TEXT cpu_utilization=0.9"), ("theirs", "1")]
        _, call = await method(made.channel).with_call(b"")
        await settled()
        assert call.trailing_metadata.first("theirs") is None
        assert made.notes.results == ["completed"]


async def test_a_call_that_finds_no_host_is_not_copied(autojump_clock):
    async with shadowed() as made:
        made.mesh.endpoints("cart")
        with pytest.raises(RpcError):
            await ask(made.channel)
        await settled()
        assert not made.shadow.calls


async def never(call):
    await trio.sleep_forever()


async def test_a_cancelled_call_leaves_its_complete_copy_alone(autojump_clock):
    async with shadowed(knobs={"handlers": {METHOD: never}}) as made:
        made.shadow.seconds = 2
        with trio.move_on_after(1) as gone:
            await ask(made.channel)
        assert gone.cancelled_caught
        await trio.sleep(2)
        assert made.notes.results == ["completed"]


async def test_a_channel_that_closes_ends_its_copies(autojump_clock):
    async with shadowed() as made:
        made.shadow.seconds = 10
        async with made.mesh.channel(mirroring=Mirroring()) as other:
            await ask(other)
            await settled()
            before = trio.current_time()
        assert trio.current_time() - before < 1
        await settled()
        assert made.shadow.reset == [[b""]]


# -- what a copy does not have


async def test_a_copy_has_no_credentials_cookies_and_session_headers(autojump_clock):
    token = CallCredentials(lambda context: [("authorization", "Bearer t"), ("x-token", "t")], allow_insecure=True)
    async with shadowed(call_credentials=token, sessions=True) as made:
        async with made.channel.session() as session:
            await ask(session)
            pairs = [("authorization", "Basic s"), ("cookie", "own=1"), ("user", "amy")]
            await ask(session, metadata=pairs)
        await settled()
        assert made.shadow.metadata.keys().isdisjoint({"authorization", "x-token", "cookie"})
        assert made.shadow.metadata["user"] == "amy"


async def test_the_program_may_send_credentials_with_copies(autojump_clock):
    token = CallCredentials(lambda context: [("x-token", "t")], allow_insecure=True)
    mirroring = Mirroring(credentials=True)
    async with shadowed(call_credentials=token, mirroring=mirroring) as made:
        await ask(made.channel, metadata=[("authorization", "Basic s"), ("cookie", "own=1")])
        await settled()
        assert (made.shadow.metadata["authorization"], made.shadow.metadata["x-token"]) == ("Basic s", "t")
        assert "cookie" not in made.shadow.metadata


async def test_credentials_of_a_copy_need_tls_too(autojump_clock):
    token = CallCredentials(lambda context: [("x-token", "t")])
    async with shadowed(mirroring=Mirroring(credentials=True)) as made:
        with pytest.raises(RpcError):
            await ask(made.channel, credentials=token)
        await settled()
        assert not made.shadow.calls


async def test_the_program_may_send_cookies_with_copies(autojump_clock):
    async with shadowed(mirroring=Mirroring(cookies=True), sessions=True) as made:
        async with made.channel.session() as session:
            await ask(session)
            await ask(session)
        await settled()
        assert made.shadow.metadata["cookie"].startswith("session=")


async def test_a_session_header_is_not_copied(autojump_clock):
    async with shadowed() as made:
        listen(made.mesh, session_filter(state=in_header("x-session")))
        async with made.channel.session() as session:
            await ask(session)
            await ask(session, metadata=[("user", "amy")])
            await settled()
            assert session.hosts
        assert len(made.shadow.calls) == 2
        assert "x-session" not in made.shadow.metadata
        assert made.shadow.metadata["user"] == "amy"


async def test_a_session_header_of_a_filter_that_is_gone_is_not_copied(autojump_clock):
    async with shadowed() as made:
        listen(made.mesh, session_filter(state=in_header("x-session")))
        async with made.channel.session() as session:
            await ask(session)
            listen(made.mesh)
            await settled()
            await ask(session)
            await settled()
        assert len(made.shadow.calls) == 2
        assert "x-session" not in made.shadow.metadata


async def test_the_authority_of_a_copy_ends_with_shadow(autojump_clock):
    async with shadowed(authority="shop.example:8080") as made:
        await ask(made.channel)
        await settled()
        assert made.shadow.calls[0].authority == "shop.example-shadow:8080"


@pytest.mark.parametrize(
    ("fields", "authority"),
    [
        ({}, "shop-shadow"),
        ({"disable_shadow_host_suffix_append": True}, "shop"),
        ({"host_rewrite_literal": "canary.example"}, "canary.example"),
    ],
)
async def test_a_policy_decides_on_the_authority(autojump_clock, fields, authority):
    async with shadowed({"cluster": "shadow", **fields}) as made:
        await ask(made.channel)
        await settled()
        assert made.shadow.calls[0].authority == authority


async def test_a_name_that_a_policy_gives_has_to_be_proved_by_the_host(autojump_clock, tmp_path):
    root = Authority()
    tls = root.issue(names=["shop", "canary.example"]).server_context(tmp_path)
    policies = [{"cluster": "cart", "host_rewrite_literal": name} for name in ("canary.example", "bank.example")]
    options = {"knobs": {"tls": tls}, "credentials": trxds.tls(roots=root.pem)}
    async with shadowed(*policies, **options) as made:
        await ask(made.channel)
        await settled()
        assert sorted(made.notes.results) == ["completed", "completed"]
        refused, accepted = sorted((each.status for each in made.notes.all), key=lambda status: status.ok)
        assert accepted.ok and "does not prove the authority 'bank.example'" in refused.message
        seen = [call.authority for call in made.mesh.servers[made.mesh.hosts[0]].calls]
        assert sorted(seen) == ["canary.example", "shop"]


async def test_the_token_of_a_copy_is_for_the_channels_name_whatever_a_policy_says(autojump_clock):
    asked = []

    async def token(context):
        asked.append(context.service_url)
        return []

    policy = {"cluster": "shadow", "host_rewrite_literal": "canary.example"}
    options = {
        "mirroring": Mirroring(credentials=True),
        "call_credentials": CallCredentials(token, allow_insecure=True),
    }
    async with shadowed(policy, **options) as made:
        await ask(made.channel)
        await settled()
        assert made.shadow.calls[0].authority == "canary.example"
        assert len(asked) == 2 and len(set(asked)) == 1


# -- bounds


async def test_copies_beyond_max_calls_are_dropped_and_counted(autojump_clock):
    async with shadowed(mirroring=Mirroring(max_calls=2)) as made:
        made.shadow.seconds = 1
        for _ in range(5):
            await ask(made.channel)
        assert made.notes.results == ["too_many"] * 3
        await trio.sleep(2)
        assert made.notes.results == ["too_many"] * 3 + ["completed"] * 2
        await ask(made.channel)
        await trio.sleep(2)
        assert made.notes.results[-1] == "completed"


async def test_a_copy_of_a_request_beyond_max_bytes_is_dropped_and_counted(autojump_clock):
    async with shadowed(mirroring=Mirroring(max_bytes=10)) as made:
        await method(made.channel)(b"x" * 11)
        await method(made.channel)(b"x" * 10)
        await settled()
        assert made.notes.results == ["too_large", "completed"]
        assert made.shadow.requests == [b"x" * 10]


async def test_copies_share_max_bytes(autojump_clock):
    async with shadowed(mirroring=Mirroring(max_bytes=10)) as made:
        made.shadow.seconds = 1
        await method(made.channel)(b"x" * 6)
        await method(made.channel)(b"x" * 6)
        await trio.sleep(2)
        await method(made.channel)(b"x" * 6)
        await trio.sleep(2)
        assert made.notes.results == ["too_large", "completed", "completed"]


async def test_a_copy_has_a_deadline_of_its_own(autojump_clock):
    async with shadowed(mirroring=Mirroring(timeout=3)) as made:
        made.shadow.seconds = 10
        await ask(made.channel)
        await trio.sleep(2.9)
        assert not made.notes.all
        await trio.sleep(0.2)
        assert made.notes.results == ["timeout"]
        assert made.shadow.calls[0].timeout == pytest.approx(3, abs=0.1)


async def test_the_calls_deadline_ends_its_copy_too(autojump_clock):
    async with shadowed(mirroring=Mirroring(timeout=30)) as made:
        made.shadow.seconds = 10
        await ask(made.channel, timeout=2)
        await trio.sleep(2.1)
        assert made.notes.results == ["timeout"]


async def test_a_copy_does_not_wait_for_ready(autojump_clock):
    async with shadowed() as made:
        made.mesh.endpoints("shadow")
        await ask(made.channel)
        await settled()
        await ask(made.channel, wait_for_ready=True)
        await settled()
        assert made.notes.results[-1] == "not_sent"


async def test_the_circuit_breaker_of_the_mirror_cluster_counts_copies(autojump_clock):
    async with shadowed() as made:
        made.mesh.plane.put({**xds.cluster("shadow"), "circuit_breakers": {"thresholds": [{"max_requests": 1}]}})
        made.shadow.seconds = 1
        await ask(made.channel)
        await settled()
        await ask(made.channel)
        await settled()
        assert made.notes.results == ["not_sent"]
        assert made.notes.all[0].status.message.endswith("circuit breaker drop")
        await trio.sleep(2)
        assert made.notes.results == ["not_sent", "completed"]


async def test_the_load_report_of_the_mirror_cluster_has_copies(autojump_clock):
    async with shadowed() as made:
        made.mesh.plane.put(xds.cluster("shadow") | xds.load_reports())
        made.mesh.plane.load.ask(interval=10)
        await ask(made.channel)
        await ask(made.channel)
        stats = (await made.mesh.plane.load.next_report()).clusters["shadow"]
        assert sum(each.total_successful_requests for each in stats.upstream_locality_stats) == 2


async def test_the_first_copy_that_was_dropped_is_logged(autojump_clock, caplog):
    caplog.set_level(logging.INFO, "trxds.client")
    async with shadowed(mirroring=Mirroring(max_calls=1)) as made:
        made.shadow.seconds = 1
        for _ in range(4):
            await ask(made.channel)
    assert [each for each in lines(caplog, "client") if "copy" in each] == [
        'xds:///shop: a copy of a call to cluster "shadow" was not completed: '
        "as many as Mirroring.max_calls are under way"
    ]


async def test_a_call_that_a_fault_ends_is_not_copied(autojump_clock):
    async with shadowed() as made:
        abort = {"grpc_status": 10, "percentage": {"numerator": 100}}
        listen(made.mesh, {"name": "fault", "typed_config": {"@type": FAULT, "abort": abort}})
        with pytest.raises(RpcError):
            await ask(made.channel)
        await settled()
        assert not made.shadow.calls


async def test_a_copy_has_not_the_context_of_its_call(autojump_clock):
    span = contextvars.ContextVar("span", default="none")
    seen = []

    def give(context):
        seen.append(span.get())
        return []

    token = CallCredentials(give, allow_insecure=True)
    async with shadowed(mirroring=Mirroring(credentials=True), call_credentials=token) as made:
        span.set("of the call")
        await ask(made.channel)
        await settled()
    assert seen == ["of the call", "none"]
