"""Tokens for the control plane: read from files, or fetched by google.auth."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.credential_documents import PLANE, jwt

from trxds.xds.authorization import fetch_authorization, read_token
from trxds.xds.bootstrap import ServerConfig
from trxds.xds.channel_credentials import GoogleDefault


@pytest.mark.parametrize("subject", ["", "a", "ab", "abc"])  # base64 without its padding has one of these lengths
def test_a_token_is_read_as_it_is(tmp_path: Path, subject: str) -> None:
    path, token = tmp_path / "token", jwt(exp=1, sub=subject)
    path.write_text(f"{token}\n")
    assert read_token(str(path)) == token


def test_a_token_with_a_line_end_inside_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(jwt(exp=1).replace(".signature", ".sig\nnature"))
    with pytest.raises(OSError, match=rf"jwt_token_file {path}: its token has .* so it cannot be sent"):
        read_token(str(path))


@pytest.mark.parametrize(
    "text", ["", "hello", "a.b", "a.e30.c", "a.e3t7.c", "a.W10.c", "a.\u00e9.c", jwt(exp="soon"), jwt(sub="me")]
)
def test_a_file_without_a_token_is_named_in_the_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text, "utf-8")
    with pytest.raises(OSError, match=rf"jwt_token_file {path} has no JWT"):
        read_token(str(path))


def test_a_token_file_that_is_not_there_is_named() -> None:
    with pytest.raises(OSError, match=r"jwt_token_file /none cannot be read: No such file or directory"):
        read_token("/none")


async def test_google_default_fetches_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    class Credentials:
        token = ""

        def refresh(self, request: object) -> None:
            self.token = "from-google"

    auth, requests = ModuleType("google.auth"), ModuleType("google.auth.transport.requests")
    auth.__dict__["default"] = lambda scopes: (Credentials(), "project")
    requests.__dict__["Request"] = object
    monkeypatch.setitem(sys.modules, "google.auth", auth)
    monkeypatch.setitem(sys.modules, "google.auth.transport.requests", requests)
    headers = await fetch_authorization(ServerConfig(PLANE, GoogleDefault()))
    assert headers == [(b"authorization", b"Bearer from-google")]


async def test_a_failure_of_google_default_to_fetch_a_token_is_an_oserror(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(scopes: object) -> None:
        raise AttributeError("'list' object has no attribute 'get'")

    auth = ModuleType("google.auth")
    auth.__dict__["default"] = stumble
    monkeypatch.setitem(sys.modules, "google.auth", auth)
    monkeypatch.setitem(sys.modules, "google.auth.transport.requests", ModuleType("google.auth.transport.requests"))
    with pytest.raises(OSError, match="google_default: no token: 'list' object has no attribute 'get'"):
        await fetch_authorization(ServerConfig(PLANE, GoogleDefault()))


async def test_a_token_that_google_default_cannot_fetch_has_the_errors_type_and_not_its_text(monkeypatch) -> None:
    class Credentials:
        def refresh(self, request: object) -> None:
            raise LookupError("the answer was: access_token=SECRET")

    auth, requests = ModuleType("google.auth"), ModuleType("google.auth.transport.requests")
    auth.__dict__["default"] = lambda scopes: (Credentials(), "project")
    requests.__dict__["Request"] = object
    monkeypatch.setitem(sys.modules, "google.auth", auth)
    monkeypatch.setitem(sys.modules, "google.auth.transport.requests", requests)
    with pytest.raises(OSError, match=r"^google_default: no token: its fetch failed with LookupError$"):
        await fetch_authorization(ServerConfig(PLANE, GoogleDefault()))


def test_a_file_without_an_end_is_not_read_to_its_end() -> None:
    with pytest.raises(OSError, match=r"jwt_token_file /dev/zero has more than 65536 bytes; write one token there"):
        read_token("/dev/zero")
