"""The page's question to a channel: where would this call go? In memory, on a clock that jumps."""

import json

import pytest
import trio
from support.mesh import METHOD, Mesh, ask

from trxds.admin.page.explain_request import explain
from trxds.testing import resources as xds


def question(method=METHOD, metadata=(), channel="shop"):
    return {"id": 1, "channel": channel, "method": method, "metadata": list(metadata)}


async def test_an_explanation_on_the_page_goes_from_the_virtual_host_to_the_host(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await channel.method(METHOD, None, None)(b"")
        told = await explain({"shop": channel}, question())
        assert (told["verdict"], told["host"]) == ("goes", mesh.hosts[0])
        about = [line["about"] for line in told["lines"]]
        assert about[:4] == ["virtual host", "route", "cluster", "time"]
        assert [line["policy"] for line in told["lines"] if line["about"] == "policy"][-1] == "round_robin"
        assert json.loads(json.dumps(told)) == told


async def test_a_cookie_is_read_as_the_call_would_have_it(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        told = await explain({"shop": channel}, question(metadata=[["Cookie", "session=rubbish"]]))
        [session] = [line["text"] for line in told["lines"] if line["about"] == "session"]
        assert "rubbish" not in session and "session" in session


async def test_binary_metadata_of_a_question_is_base64(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        for text in ("AAE", "AAE="):  # as a pick shows it, and as most tools write it
            told = await explain({"shop": channel}, question(metadata=[["Trace-Bin", text]]))
            assert told["host"] == mesh.hosts[0]
        told = await explain({"shop": channel}, question(metadata=[["Trace-Bin", "!"]]))
        assert told["error"].startswith("the value of 'Trace-Bin' is not base64")


async def test_the_question_about_a_session_s_pick_has_the_session_and_changes_nothing_of_it(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
        host = await ask(session)
        for _ in range(3):
            told = await explain({"shop": channel}, question() | {"session": "shop/1"})
            assert (told["verdict"], told["host"]) == ("goes", host)
        [line] = [line["text"] for line in told["lines"] if line["about"] == "session"]
        assert f"names {host}" in line
        assert await ask(session) == host


async def test_a_question_about_a_session_that_is_over_says_so(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        async with channel.session() as session:
            await ask(session)
        told = await explain({"shop": channel}, question() | {"session": "shop/1"})
        assert (
            told["error"] == "there is no session 'shop/1' any more; ask without a session, or about one that is open"
        )


async def test_routes_that_do_not_match_say_why_and_the_call_fails(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.plane.put(xds.routes("routes", *[xds.route("cart", prefix=f"/other.{number}/") for number in range(30)]))
        await trio.sleep(1)
        told = await explain({"shop": channel}, question())
        passed = [line["text"] for line in told["lines"] if line["about"] == "passed"]
        assert passed[0].startswith("route 0 does not match: the path is not") and "/other.0/" in passed[0]
        assert (len(passed), passed[-1]) == (21, "10 more routes do not match")
        assert told["verdict"] == "fails"


async def test_an_explanation_without_a_configuration_names_what_is_missing(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel("xds:///nobody") as channel:
        told = await explain({"nobody": channel}, question(channel="nobody"))
        assert "nobody" in told["error"]


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (question(method="Add"), "Add"),
        (question(channel="other"), "there is no channel 'other'; there are shop"),
        (question(metadata=[["a"]]), "a question has a channel, a method and metadata, a list of pairs of texts"),
        (question(metadata=[["a b", "c"]]), "a b"),
        ({"id": 1}, "a question has a channel"),
    ],
)
async def test_an_invalid_explain_request_is_answered_with_its_error(asked, error, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        assert error in (await explain({"shop": channel}, asked))["error"]


async def test_a_channel_that_is_closed_says_so(autojump_clock):
    async with Mesh.run(1) as mesh:
        async with mesh.channel() as channel:
            pass
        assert "closed" in (await explain({"shop": channel}, question()))["error"]


@pytest.mark.parametrize("session", ["\ud800", {"a": 1}])
async def test_an_odd_session_of_a_question_is_quoted(session, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        told = await explain({"shop": channel}, question() | {"session": session})
        assert told["error"].isascii() and told["error"].startswith(f"there is no session {session!r} any more")
