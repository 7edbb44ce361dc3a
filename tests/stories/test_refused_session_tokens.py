"""A token that was changed, forged or made for something else is refused, and the error shows nothing of it."""

from __future__ import annotations

import base64
import math

import pytest
from support.mesh import Mesh, ask, spread
from support.sessions import b64
from support.tokens import KEY, OTHER_KEY, exported, refused, token_of
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds import SessionTokenError
from trxds.testing import resources as xds


class TestSigned:
    async def test_a_signed_token_continues_the_session_with_its_key(self, autojump_clock):
        async with Mesh.run(6) as mesh:
            token, host = await exported(mesh, key=KEY)
            async with mesh.channel() as channel, channel.session(token, key=KEY) as session:
                assert await spread(session, 3) == {host: 3}

    async def test_keys_can_change_the_first_signs_and_all_check(self, autojump_clock):
        async with Mesh.run(6) as mesh:
            old, host = await exported(mesh, key=OTHER_KEY)
            async with mesh.channel() as channel:
                async with channel.session(old, key=[KEY, OTHER_KEY]) as session:
                    new = session.export(key=[KEY, OTHER_KEY])
                async with channel.session(new, key=KEY) as session:
                    assert await ask(session) == host

    async def test_another_key_is_refused(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            token, _ = await exported(mesh, key=KEY)
            for keys in (OTHER_KEY, [OTHER_KEY, b"x" * 16]):
                assert "signature is wrong" in await refused(channel, token, key=keys)

    async def test_a_signed_token_without_a_key_is_refused(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            token, _ = await exported(mesh, key=KEY)
            assert await refused(channel, token) == "the session token is signed; pass the key that signed it"

    async def test_an_unsigned_token_with_a_key_is_refused(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            token, _ = await exported(mesh)
            assert (await refused(channel, token, key=KEY)).startswith("the session token is not signed; ")

    async def test_no_character_of_a_signed_token_can_be_changed(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            token, _ = await exported(mesh, key=KEY)
            for at, character in enumerate(token):
                changed = token[:at] + ("A" if character != "A" else "B") + token[at + 1 :]
                await refused(channel, changed, key=KEY)

    async def test_a_signature_does_not_hold_for_other_contents(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            token, _ = await exported(mesh, key=KEY)
            forged = f"{token_of()}.{token.split('.')[2]}"
            assert "signature is wrong" in await refused(channel, forged, key=KEY)

    @pytest.mark.parametrize(
        ("key", "kind", "text"),
        [
            ("a text of enough letters", TypeError, "not str"),
            (b"short", ValueError, "key has 5 bytes; it needs 16"),
            ([KEY, b"short"], ValueError, "key has 5 bytes"),
            ([], ValueError, "key is empty"),
            ([1], TypeError, "not int"),
        ],
        ids=["text", "short", "short second", "none", "number"],
    )
    async def test_a_key_that_is_no_key_is_refused_by_both(self, key, kind, text, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
            with pytest.raises(kind, match=text):
                session.export(key=key)
            with pytest.raises(kind, match=text):
                async with channel.session(None, key=key):
                    pass


COOKIE = ["session", "/", b64("10.0.1.1:50051;cart"), None]


class TestRefused:
    @pytest.mark.parametrize(
        ("token", "why"),
        [
            ("", "this is no session token, or not the whole of it"),
            ("hello", "this is no session token"),
            (b"trxds1.e30", "is a str, as export.. returns it, not bytes"),
            (7, "not int"),
            (token_of() + "\n", "has a line end at position"),
            ("trxds1.\0", "has a NUL at position 7"),
            ("trxds1.ü", "has a character that is not ASCII at position 7"),
            (token_of(version=2), "has version 2, and this trxds reads version 1 only; use the same release"),
            ("trxds99.another.form.of.tokens", "has version 99, and this trxds reads version 1 only"),
            ("trxds1." + "A" * 8192, "has 8199 characters, and 8192 are the limit"),
            (token_of(target="xds:///other"), "is of the target 'xds:///other', and this channel's is 'xds:///shop'"),
            (token_of(target="\x1b[31m\n"), r"of the target '\\x1b\[31m\\n', and"),
            (token_of(target="x" * 5000), f"of the target '{'x' * 100}', and"),
            ("trxds1.e30", "content cannot be read"),
            ("trxds1." + "W" * 4001, "content cannot be read"),
            ("trxds1." + base64.urlsafe_b64encode(b"[" * 6000).decode(), "content cannot be read"),
            (token_of(target=1), "content cannot be read"),
            (token_of(cookies=[COOKIE[:3]]), "content cannot be read"),
            (token_of(cookies={}), "content cannot be read"),
            (token_of(cookies=[[*COOKIE[:3], math.nan]]), "content cannot be read"),
            (token_of(cookies=[[*COOKIE[:3], math.inf]]), "content cannot be read"),
            (token_of(cookies=[[*COOKIE[:3], 10**400]]), "content cannot be read"),
            (token_of(cookies=[[*COOKIE[:3], True]]), "content cannot be read"),
            (token_of(cookies=[[*COOKIE[:3], "5"]]), "content cannot be read"),
            (token_of(cookies=[COOKIE, ["", *COOKIE[1:]]]), "cookie 2 has a name that no cookie has"),
            (token_of(cookies=[["a=b", *COOKIE[1:]]]), "cookie 1 has a name that no cookie has"),
            (token_of(cookies=[["a;b", *COOKIE[1:]]]), "cookie 1 has a name that no cookie has"),
            (token_of(cookies=[["a\r\nb", *COOKIE[1:]]]), "cookie 1 has a name that no cookie has"),
            (token_of(cookies=[["a", "/\n", *COOKIE[2:]]]), "cookie 1 has a path that no cookie has"),
            (token_of(cookies=[["a", "/" * 1025, *COOKIE[2:]]]), "cookie 1 has a path that no cookie has"),
            (token_of(cookies=[["a", "/", "x; b=y", None]]), "cookie 1 has a value that no cookie has"),
            (token_of(cookies=[["a", "/", "x\0", None]]), "cookie 1 has a value that no cookie has"),
            (token_of(cookies=[["a", "/", "x" * 4096, None]]), "cookie 1 has a value that no cookie has"),
            (token_of(cookies=[["admin", "/", "1", None]]), "cookie 1 names no host"),
            (token_of(cookies=[COOKIE, COOKIE]), "a cookie or header twice"),
            (token_of(cookies=[[f"{n}", *COOKIE[1:]] for n in range(51)]), "more than 50 cookies or headers"),
            (token_of(headers=[["authorization", "Bearer x"]]), "header 1 names no host"),
            (token_of(headers=[["cookie", COOKIE[2]]]), "header 1 has a name that no session header has"),
            (token_of(headers=[["set-cookie", COOKIE[2]]]), "header 1 has a name that no session header has"),
            (token_of(headers=[["te", COOKIE[2]]]), "header 1 has a name that no session header has"),
            (token_of(headers=[["X-S", COOKIE[2]]]), "header 1 has a name that no session header has"),
            (token_of(headers=[[":path", COOKIE[2]]]), "header 1 has a name that no session header has"),
            (token_of(headers=[["x-bin", COOKIE[2]]]), "header 1 has a name that no session header has"),
            (token_of(headers=[["x", "a\nb"]]), "header 1 has a value that no header has"),
            (token_of(headers=[["x", COOKIE[2]], ["x", COOKIE[2]]]), "a cookie or header twice"),
        ],
        ids=lambda value: value if isinstance(value, str) and not value.startswith("trxds") else "token",
    )
    async def test_a_token_that_cannot_be_used_is_refused_with_the_reason(self, token, why, autojump_clock):
        async with Mesh.run(0) as mesh, mesh.channel() as channel:
            message = await refused(channel, token)
            with pytest.raises(SessionTokenError, match=why):
                raise SessionTokenError(message)
            assert channel.admin_view().sessions == set()

    async def test_every_piece_of_a_token_is_refused(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            token, _ = await exported(mesh)
            for length in range(len(token) - 1):
                await refused(channel, token[:length])

    async def test_the_error_is_a_value_error(self):
        assert issubclass(trxds.SessionTokenError, ValueError)

    async def test_the_same_target_written_without_its_scheme_is_the_same(self, autojump_clock):
        async with Mesh.run(0) as mesh:
            async with trxds.open_channel("shop:1", network=mesh.network) as channel, channel.session() as session:
                token = session.export()
            async with (
                trxds.open_channel("dns:///shop:1", network=mesh.network) as channel,
                channel.session(token) as session,
            ):
                assert session.host is None

    async def test_a_session_with_more_than_a_token_may_have_is_not_exported(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
            for number in range(3):
                mesh.listen(name="shop", path=f"/{number}/{'x' * 1000}")
                mesh.plane.put(
                    xds.listener("shop", routes="routes", filters=[xds.stateful_session(f"{number}{'n' * 2000}")])
                )
                await wait_all_tasks_blocked()
                await ask(session, wait_for_ready=True)
            with pytest.raises(ValueError, match="8192 are the limit; it has 3 cookies and headers"):
                session.export()
