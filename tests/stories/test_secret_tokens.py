"""Tokens of sessions and for the control plane are shown nowhere, whatever is wrong with them."""

from __future__ import annotations

import json

import pytest
import trio
from support.mesh import METHOD, ask
from support.secrecy import SECRET, Said, note_reprs, overheard
from support.secret_metadata import B64, leaks
from support.tokens import token_of

import trxds
import trxds.sync
from trxds.xds.authorization import read_token
from trxds.xds.bootstrap import parse

pytestmark = pytest.mark.slow


# -- tokens of sessions


async def test_a_token_of_a_session_is_shown_nowhere(autojump_clock):
    key = SECRET.encode()
    async with overheard() as (_, channel, said), channel.sessions(max=3, idle=60) as pool:
        async with channel.session() as first:
            await ask(first)
            token, signed = first.export(), first.export(key=key)
        async with channel.session(token) as session, pool.session(SECRET, signed, key=key) as pooled:
            for each in (first, session, pooled):
                said.note("session", f"{each!r} {each.hosts!r} {each.host!r}")
            await ask(session)
            await ask(pooled)
            said.note("explained", str(await channel.explain(METHOD)))
            said.note("pool", pool)
            note_reprs(said, session, pooled, pool)
            await trio.sleep(2)
            ((_, cookie),) = session._session.cookies.metadata._jar.live(trio.current_time())
    own = (token, signed, token.split(".")[1], signed.split(".")[2], cookie)
    assert [(where, text[:600]) for where, text in said.texts if any(each in text for each in own)][:3] == []
    assert leaks(said) == []


FOREIGN_TOKENS = {
    "a secret": SECRET,
    "with a line end": f"{SECRET}\n",
    "of a version": f"trxds7.{SECRET}",
    "of no content": f"trxds1.{SECRET}",
    "of base64": f"trxds1.{B64.rstrip('=')}.{B64.rstrip('=')}",
    "too long": SECRET * 1000,
    **{
        f"with a secret {where}": token_of(**{kind: rows})
        for where, kind, rows in [
            ("name", "cookies", [[f"{SECRET}=", "/", "x", None]]),
            ("path", "cookies", [["a", f"{SECRET};", "x", None]]),
            ("value", "cookies", [["a", "/", SECRET, None]]),
            ("header", "headers", [[SECRET, SECRET]]),
        ]
    },
}


@pytest.mark.parametrize("token", FOREIGN_TOKENS.values(), ids=FOREIGN_TOKENS)
async def test_a_token_that_is_refused_is_shown_nowhere(token, autojump_clock):
    async with overheard() as (_, channel, said), channel.sessions(max=1) as pool:
        for block in (channel.session(token), channel.session(token, key=SECRET.encode()), pool.session(1, token)):
            with pytest.raises(trxds.SessionTokenError) as refused:
                async with block:
                    pass
            said.error(refused.value)
    assert leaks(said) == []


# -- tokens for the control plane


TOKENS = {
    "none": SECRET,
    "two parts": f"{SECRET}.{SECRET}",
    "no claims": f"e30.{B64}.{SECRET}",
    "no exp": f"e30.e30.{SECRET}",
    "a line end in the middle": f"e30.eyJleHAi\nOjE5MDAwMDAwMDB9.{SECRET}",
    "a NUL": f"{SECRET}\0.eyJleHAiOjE5MDAwMDAwMDB9.x",
    "beyond ASCII": f"{SECRET}ü",
    "nothing": "",
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_an_invalid_token_of_the_control_plane_is_not_shown(token, tmp_path):
    path = tmp_path / "token"
    path.write_text(token, newline="")
    with pytest.raises(OSError, match=r"jwt_token_file .*token") as refused:
        read_token(str(path))
    said = Said()
    said.error(refused.value)
    assert leaks(said) == []


@pytest.mark.parametrize("where", ["call_creds", "channel_creds"])
@pytest.mark.parametrize(
    "text", [f"eyJhbGciOiJSUzI1NiJ9.{B64}.{SECRET}", f"-----BEGIN PRIVATE KEY-----\n{B64}\n-----END PRIVATE KEY-----"]
)
def test_a_bootstrap_with_the_secret_in_place_of_its_path_is_refused_without_it(where, text):
    server = {"server_uri": "plane:443", "channel_creds": [{"type": "tls", "config": {}}]}
    if where == "call_creds":
        server["call_creds"] = [{"type": "jwt_token_file", "config": {"jwt_token_file": text}}]
    else:
        files = {"certificate_file": "c.pem", "private_key_file": text, "refresh_interval": "1s"}
        server["channel_creds"] = [{"type": "tls", "config": files}]
    with pytest.raises(trxds.BootstrapError, match="write the path") as refused:
        parse(json.dumps({"xds_servers": [server], "node": {"id": "a"}}))
    said = Said()
    said.error(refused.value)
    assert leaks(said) == []
