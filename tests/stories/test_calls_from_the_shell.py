"""`trxds call` goes through the xDS client: routes, sessions and policies, for calls of all four kinds."""

import json

import pytest
import trio
from support.described_shop import call_in, described_mesh
from support.mesh import PLANE

from trxds.cli.call.output import Output
from trxds.cli.call.run import SessionPlan
from trxds.cli.call.schema import CallError
from trxds.testing import resources as xds

ADD = "shop.Cart/Add"


def replies(text):
    """The JSON values that stand one after the other."""
    found, decoder = [], json.JSONDecoder()
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


async def test_a_call_by_reflection_prints_its_reply_as_json(capsys, autojump_clock):
    async with described_mesh() as mesh:
        code = await call_in(mesh, ADD, data='{"sku": "apples"}')
        out, err = capsys.readouterr()
        assert (code, json.loads(out), err) == (0, {"sku": f"apples@{mesh.hosts[0]}"}, "")


@pytest.mark.parametrize(
    ("method", "data", "expected"),
    [
        ("List", '{"sku": "a"}', [{"sku": "a", "count": count} for count in (1, 2, 3)]),
        ("Fill", '{"count": 2} {"count": 3}', [{"count": 5}]),
        ("Fill", '[{"count": 2}, {"count": 3}]', [{"count": 5}]),
        ("Fill", None, [{}]),
        ("Talk", '{"sku": "a"}\n{"sku": "b"}', [{"sku": "A"}, {"sku": "B"}]),
    ],
)
async def test_streams_of_requests_and_replies(method, data, expected, capsys, autojump_clock):
    async with described_mesh() as mesh:
        assert await call_in(mesh, f"shop.Cart/{method}", data=data) == 0
    assert replies(capsys.readouterr().out) == expected


async def test_calls_of_a_session_meet_one_host_and_other_calls_all(capsys, autojump_clock):
    async with described_mesh(3) as mesh:
        await call_in(mesh, ADD, repeat=6)
        assert capsys.readouterr().err.count(" to 10.0.1.") > 1
        await call_in(mesh, ADD, repeat=6, session=SessionPlan(is_wanted=True))
        assert capsys.readouterr().err.startswith("6 calls of one session: 6 to 10.0.1.")


async def test_a_session_goes_on_by_its_token(capsys, autojump_clock):
    async with described_mesh(5) as mesh:
        await call_in(mesh, ADD, session=SessionPlan(is_wanted=True, shows_token=True))
        out, err = capsys.readouterr()
        token = err.removeprefix("session token: ").strip()
        for _ in range(3):
            await call_in(mesh, ADD, session=SessionPlan(True, token))
            again, err = capsys.readouterr()
            assert (again, err) == (out, "")


async def test_a_session_that_is_not_sticky_is_a_warning_with_the_reason(capsys, autojump_clock):
    async with described_mesh(2, sessions=False) as mesh:
        assert await call_in(mesh, ADD, session=SessionPlan(is_wanted=True)) == 0
    assert "warning: the session is not sticky: the route has no stateful session filter" in capsys.readouterr().err


async def test_metadata_goes_with_the_call_and_its_reflection(capsys, autojump_clock):
    async with described_mesh() as mesh:
        # Only calls with the header have a route.
        canary = {"match": {"prefix": "", "headers": [{"name": "canary", "exact_match": "yes"}]}}
        mesh.route(canary | {"route": {"cluster": "cart"}})
        assert await call_in(mesh, ADD, metadata=[("canary", "yes")]) == 0
        assert await call_in(mesh, ADD) == 3


async def test_verbose_prints_the_host_both_metadata_and_the_sessions_host(capsys, autojump_clock):
    async with described_mesh() as mesh:
        await call_in(mesh, ADD, output=Output(is_verbose=True), session=SessionPlan(is_wanted=True))
        host = mesh.hosts[0]
    lines = capsys.readouterr().err.splitlines()
    assert lines[:4] == [f"host: {host}", "initial metadata:", f"  shop-host: {host}", "  trace-bin: AQI"]
    assert lines[-3:] == ["trailing metadata:", "  cost: 3", f"session by session: on {host}, cluster cart"]


# -- failures


async def test_a_failure_shows_the_status_its_details_and_the_pick(capsys, autojump_clock):
    async with described_mesh() as mesh:
        assert await call_in(mesh, ADD, data='{"sku": "nothing"}') == 1
        host = mesh.hosts[0]
    out, err = capsys.readouterr()
    status, _, rest = err.partition("details:\n")
    details, _, explanation = rest.partition("where such a call goes now:\n")
    assert (out, status) == ("", f"NOT_FOUND: no such item (host {host})\n")
    assert replies(details) == [
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SOLD_OUT", "domain": "shop"},
        {"@type": "type.googleapis.com/shop.Note", "text": "tomorrow"},
        {"@type": "type.googleapis.com/shop.Unknown", "@bytes": "AQID"},
    ]
    assert "cluster cart" in explanation and explanation.endswith(f"so the RPC goes to {host} (READY)\n")


async def test_a_failure_as_json_is_one_line(capsys, autojump_clock):
    async with described_mesh() as mesh:
        assert await call_in(mesh, ADD, data='{"sku": "nothing"}', output=Output(is_compact=True)) == 1
        host = mesh.hosts[0]
    (line,) = capsys.readouterr().err.splitlines()
    data = json.loads(line)
    assert (data["status"], data["code"], data["host"]) == ("NOT_FOUND", 5, host)
    assert len(data["details"]) == 3 and data["explanation"]["host"] == host


async def test_a_call_without_a_route_reaches_no_host_and_says_which_routes_there_are(capsys, autojump_clock):
    async with described_mesh() as mesh:
        mesh.route(xds.route("cart", prefix="/grpc.reflection"))
        assert await call_in(mesh, ADD) == 3
    err = capsys.readouterr().err
    assert err.startswith("UNAVAILABLE: No matching route found")
    assert 'route 0 does not match: the path is not "/grpc.reflection" and anything after it' in err


async def test_a_mesh_that_does_not_route_reflection_says_what_to_do_without(capsys, autojump_clock):
    async with described_mesh() as mesh:
        mesh.route(xds.route("cart", prefix="/shop.Cart/"))
        assert await call_in(mesh, ADD) == 3
    err = capsys.readouterr().err
    assert "This was server reflection" in err and "--proto FILE or --descriptor-set FILE" in err
    assert 'the path is not "/shop.Cart/" and anything after it' in err


async def test_a_silent_control_plane_is_named_after_the_wait(autojump_clock):
    async with described_mesh() as mesh:
        mesh.network.black_hole(PLANE)
        with pytest.raises(
            CallError, match=r'/shop.Cart/Add: not done after 4 s, waiting for .* control plane: LDS resource "shop"'
        ) as at:
            await call_in(mesh, ADD, within=4)
    assert at.value.code == 3


async def test_a_call_that_takes_too_long_ends_by_its_timeout(capsys, autojump_clock):
    async def silent(call):
        await trio.sleep_forever()

    async with described_mesh() as mesh:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Add"] = silent
        assert await call_in(mesh, ADD, timeout=2) == 1
    assert trio.current_time() < 10
    assert capsys.readouterr().err.startswith("DEADLINE_EXCEEDED")


async def test_a_call_that_waits_for_ready_waits_with_its_reflection_too(capsys, autojump_clock):
    async with described_mesh() as mesh, trio.open_nursery() as nursery:
        (host,) = mesh.hosts
        mesh.network.refuse(host)
        assert await call_in(mesh, ADD) == 3
        nursery.start_soon(come_back, mesh, host)
        assert await call_in(mesh, ADD, wait_for_ready=True) == 0


async def come_back(mesh, host):
    await trio.sleep(3)
    mesh.network.restore(host)


async def test_of_several_calls_the_failures_are_counted(capsys, autojump_clock):
    async with described_mesh(2) as mesh:
        assert await call_in(mesh, ADD, data='{"sku": "nothing"}', repeat=4, is_explained=False) == 1
    err = capsys.readouterr().err
    assert err.count("NOT_FOUND: no such item") == 4 and err.endswith("; 4 failed\n")


async def test_explain_says_where_a_call_goes_that_succeeds(capsys, autojump_clock):
    async with described_mesh() as mesh:
        assert await call_in(mesh, ADD, is_explained=True) == 0
    assert "where such a call goes now:\n  /shop.Cart/Add in virtual host" in capsys.readouterr().err


async def test_metadata_and_tokens_are_in_no_error(capsys, autojump_clock):
    said = []
    async with described_mesh() as mesh:
        metadata = [("authorization", "Bearer s3cret"), ("cookie", "session=s3cret"), ("key-bin", b"s3cret")]
        assert await call_in(mesh, ADD, data='{"sku": "nothing"}', metadata=metadata) == 1
        with pytest.raises(CallError) as refused:
            await call_in(mesh, ADD, data="{", metadata=metadata)
        said.append(repr(refused.value))
        with pytest.raises(CallError, match="--session-token or --session-key: ") as refused:
            await call_in(mesh, ADD, session=SessionPlan(True, "trxds1.s3cret", b"k3yk3yk3yk3yk3yk3y"))
        said.append(repr(refused.value))
        mesh.route(xds.route("cart", prefix="/nowhere"))
        assert await call_in(mesh, ADD, metadata=metadata, output=Output(is_compact=True, is_verbose=True)) == 3
    said += capsys.readouterr()
    assert not [text for text in said for secret in ("s3cret", "czNjcmV0", "k3y") if secret in text]
