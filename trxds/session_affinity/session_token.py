"""A session travels as a token: the cookies and headers of its session filters, until when they hold, and the target.

    trxds1.PAYLOAD            not signed
    trxds1.PAYLOAD.SIGNATURE  signed with a key (HMAC-SHA256)

Both parts are base64url without padding, so that a token fits a cookie, a header and a URL. A token is a credential: no
error here shows any of its text but the target, which is bounded and escaped. This file reads no clock.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec
from msgspec import Meta

from trxds.core import metadata as md
from trxds.core.redacted_struct import RedactedStruct
from trxds.resources.stateful_session import find_header_problem

from . import cookie
from .cookie_jar import MAX_ATTRIBUTE_SIZE, MAX_COOKIES

VERSION = 1
MAX_TOKEN_SIZE = 8192  # characters: what servers commonly take as one header, and room for one cookie of any legal size
MIN_KEY_SIZE = 16  # bytes: 128 bits, so that no one can try all keys
MAX_EXPIRY = 1e11  # seconds since 1970, about the year 5138: times and intervals up to there are exact to a millisecond
_MAX_TARGET_SHOWN = 100  # characters: the target of an unsigned token may be any text
_DOMAIN = b"trxds session token\0"  # so that no signature of another purpose, made with the same key, is one here

Key: TypeAlias = bytes | Sequence[bytes]

_VERSION_FORM = re.compile(r"trxds([0-9]{1,6})\.")
_FORM = re.compile(r"(trxds1\.([A-Za-z0-9_-]+))(?:\.([A-Za-z0-9_-]+))?")


class SessionTokenError(ValueError):
    """A session token cannot be used; the message says why and what to do, and shows nothing secret of the token."""


class TokenCookie(RedactedStruct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A cookie of a session filter; `expires` is in seconds since 1970, None if it has no end."""

    redacted: ClassVar[frozenset[str]] = frozenset({"value"})
    name: str
    path: str
    value: str
    expires: Annotated[float, Meta(ge=-MAX_EXPIRY, le=MAX_EXPIRY)] | None


class SessionToken(RedactedStruct, frozen=True, forbid_unknown_fields=True):
    """The contents of a token: the canonical target, and the cookies and headers of session filters.

    A token's payload is this in JSON.
    """

    redacted: ClassVar[frozenset[str]] = frozenset({"headers"})
    target: str
    cookies: tuple[TokenCookie, ...]
    headers: tuple[tuple[str, str], ...]


def checked_keys(key: Key | None) -> tuple[bytes, ...]:
    """Return the keys: the first one signs, all of them check; none for None.

    `TypeError` for another type, `ValueError` for a key of less than `MIN_KEY_SIZE` bytes.
    """
    keys: tuple[Any, ...] = () if key is None else (key,) if isinstance(key, str | bytes) else tuple(key)
    if key is not None and not keys:
        raise ValueError("key is empty; give a key of bytes, or several, the one that signs first")
    for each in keys:
        if not isinstance(each, bytes):
            remedy = "secrets.token_bytes(32) makes one, and bytes.fromhex(...) reads one from a text"
            raise TypeError(f"key must be bytes, or a sequence of bytes, not {type(each).__name__}; {remedy}")
        if len(each) < MIN_KEY_SIZE:
            raise ValueError(f"key has {len(each)} bytes; it needs {MIN_KEY_SIZE}: secrets.token_bytes(32) makes one")
    return keys


def portable(token: SessionToken) -> SessionToken:
    """Return the token without the cookies and headers that no session filter could use, or no token may carry."""
    cookies = tuple(each for each in token.cookies if not _cookie_flaw(each))
    return SessionToken(token.target, cookies, tuple(each for each in token.headers if not _header_flaw(*each)))


def encode_token(token: SessionToken, keys: tuple[bytes, ...] = ()) -> str:
    """Return the token's text, signed with the first key; `ValueError` if it is longer than a token may be."""
    text = f"trxds{VERSION}.{_to_base64url(msgspec.json.encode(token))}"
    if keys:
        text = f"{text}.{_signature(text, keys[0])}"
    if len(text) > MAX_TOKEN_SIZE:
        raise ValueError(
            f"the session's token would have {len(text)} characters, and {MAX_TOKEN_SIZE} are the limit; "
            f"it has {len(token.cookies) + len(token.headers)} cookies and headers: let the session filters share one"
        )
    return text


def decode_token(text: object, target: str, keys: tuple[bytes, ...] = ()) -> SessionToken | SessionTokenError:
    """Return what the token holds, or the error for one that cannot be used on a channel to `target`.

    With `keys` it must be signed by one of them. The error is returned, so that no frame of its traceback has the text.
    """
    # Before anything else: a huge token must cost nothing.
    if not isinstance(text, str):
        return SessionTokenError(f"a session token is a str, as export() returns it, not {type(text).__name__}")
    if len(text) > MAX_TOKEN_SIZE:
        return SessionTokenError(f"the session token has {len(text)} characters, and {MAX_TOKEN_SIZE} are the limit")
    flaw = md.describe_flaw(text)
    if flaw:
        return SessionTokenError(f"the session token has {flaw}; pass the text of export() unchanged")
    version = _VERSION_FORM.match(text)
    if version is not None and int(version[1]) != VERSION:
        return SessionTokenError(
            f"the session token has version {int(version[1])}, and this trxds reads version {VERSION} only; "
            "use the same release on both sides, or begin a new session"
        )
    form = _FORM.fullmatch(text)
    if form is None:
        return SessionTokenError(
            "this is no session token, or not the whole of it; pass the text of export() unchanged"
        )
    signed, payload, signature = form.groups()
    flaw = _signature_flaw(signed, signature, keys)
    return SessionTokenError(flaw) if flaw else _decode_payload(payload, target)


# -- the signature


def _signature(signed: str, key: bytes) -> str:
    # The version is signed too: no token can be passed off as one of another version.
    return _to_base64url(hmac.digest(key, _DOMAIN + signed.encode("ascii"), "sha256"))


def _signature_flaw(signed: str, signature: str | None, keys: tuple[bytes, ...]) -> str:
    if not keys:
        return "" if signature is None else "the session token is signed; pass the key that signed it"
    if signature is None:
        return "the session token is not signed; make it with export(key=...), or pass no key if you trust its way here"
    # Every key is tried, so that the time says nothing. The text is compared and not its bytes: base64 has spare bits.
    if any([hmac.compare_digest(_signature(signed, key), signature) for key in keys]):
        return ""
    return "the session token's signature is wrong: it was changed, or signed with another key; begin a new session"


# -- the payload: everything in it is foreign, unless it is signed


def _decode_payload(payload: str, target: str) -> SessionToken | SessionTokenError:
    try:
        # `urlsafe_b64decode` skips foreign characters; `_FORM` has let none through.
        data = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        token = msgspec.json.decode(data, type=SessionToken)
    except (ValueError, msgspec.DecodeError, RecursionError):  # binascii.Error is a ValueError
        return SessionTokenError("the session token's content cannot be read; pass the text of export() unchanged")
    if token.target != target:
        shown = ascii(token.target[:_MAX_TARGET_SHOWN])
        return SessionTokenError(
            f"the session token is of the target {shown}, and this channel's is {target!r}; "
            "use a channel to the same target, or begin a new session"
        )
    flaws = (
        *(f"cookie {number} {flaw}" for number, each in enumerate(token.cookies, 1) if (flaw := _cookie_flaw(each))),
        *(f"header {number} {flaw}" for number, each in enumerate(token.headers, 1) if (flaw := _header_flaw(*each))),
        *_count_flaws(token.cookies, token.headers),
    )
    if flaws:
        return SessionTokenError(f"the session token cannot come from export(): {flaws[0]}; begin a new session")
    return token


def _cookie_flaw(each: TokenCookie) -> str:
    """Return why a jar could not have had this cookie of a session filter; empty if it could."""
    if not each.name or "=" in each.name or not _is_stored_text(each.name):
        return "has a name that no cookie has"
    if not _is_stored_text(each.path) or each.path[:1] not in ("", "/") or len(each.path) > MAX_ATTRIBUTE_SIZE:
        return "has a path that no cookie has"
    if not _is_stored_text(each.value) or len(each.name) + 1 + len(each.value) > cookie.MAX_SIZE:
        return "has a value that no cookie has"
    return "names no host" if cookie.decode_hosts(each.value) is None else ""


def _header_flaw(name: str, value: str) -> str:
    # A token must not be a way to send any header that its bearer likes.
    if find_header_problem(name):
        return "has a name that no session header has"
    if not md.is_value(value):
        return "has a value that no header has"
    return "names no host" if cookie.decode_hosts(value) is None else ""


def _count_flaws(cookies: Sequence[TokenCookie], headers: Sequence[tuple[str, str]]) -> Sequence[str]:
    if len(cookies) > MAX_COOKIES or len(headers) > MAX_COOKIES:
        return [f"it has more than {MAX_COOKIES} cookies or headers"]
    if len({(each.name, each.path) for each in cookies}) < len(cookies) or len(dict(headers)) < len(headers):
        return ["it has a cookie or header twice"]
    return ()


def _is_stored_text(text: str) -> bool:
    """Return whether the text can be a part of a cookie in a jar, which strips it, and which a request can carry."""
    return text == text.strip() and ";" not in text and md.is_value(text)


def _to_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
