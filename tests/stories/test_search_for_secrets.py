"""The search for secrets finds what it should: each log is among what it searches, and no leak passes."""

from __future__ import annotations

import base64
import logging

import pytest
import trio
from support.mesh import ask
from support.secrecy import SECRET, Said, everything_logged, overheard
from support.secret_metadata import COOKIES, GOOD, leaks, tried

pytestmark = pytest.mark.slow


async def test_the_log_of_decisions_is_among_what_is_searched(autojump_clock):
    async with overheard() as (mesh, channel, said), channel.session() as session:
        for cookie in COOKIES.values():
            await tried(said, ask, channel, metadata=[("cookie", cookie)])
        await ask(session)
        mesh.endpoints("cart", mesh.hosts[:1])
        await trio.sleep(1)
        await ask(session)
    lines = [text for where, text in said.texts if where == "log" and text.startswith("trxds.")]
    for begin in (
        "trxds.transport INFO",
        "trxds.resolver INFO",
        "trxds.client DEBUG",
        "trxds.resolver DEBUG",
        "trxds.lb DEBUG",
        "trxds.session_affinity DEBUG",
        "trxds.xds DEBUG",
    ):
        assert any(line.startswith(f"{begin} xds:///shop: ") for line in lines), begin
    assert leaks(said) == []


async def test_the_hpack_log_has_no_header_values(autojump_clock):
    async with overheard() as (_, channel, said):
        await ask(channel, metadata=GOOD["a token"])
    lines = [text for where, text in said.texts if where == "log" and text.startswith("hpack.")]
    assert len(lines) > 20 and all("/shop.Cart/Add" not in line for line in lines)


def test_the_hpack_log_of_other_libraries_is_unchanged():
    said = Said()
    with everything_logged(said):
        exec("from hpack import Encoder; Encoder().encode([('x', 'their own')])", {"__name__": "their_program"})
    assert any("their own" in text for _, text in said.texts)


@pytest.mark.parametrize(
    "text", [SECRET, SECRET.upper(), *(base64.b64encode(b"y" * n + SECRET.encode()).decode() for n in range(4))]
)
def test_the_search_for_secrets_finds_a_leak(text):
    said = Said()
    with everything_logged(said):
        logging.getLogger("anybody").debug("it is %s", text)
    assert [where for where, _ in said.leaks] == ["log"]
