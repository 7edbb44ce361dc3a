"""The tokens that are sent with an ADS stream (A97).

They are fetched anew for each stream. Streams begin rarely, and a token that another program refreshes in its file is
current then.
"""

from __future__ import annotations

import base64
from functools import partial
from importlib import import_module

from trxds.core.json_parse import parse_json
from trxds.core.metadata import Headers, describe_flaw
from trxds.transport.run_in_thread import run_in_thread

from .bootstrap import ServerConfig
from .channel_credentials import GoogleDefault

_MAX_TOKEN_FILE = 64 * 1024  # bytes; servers commonly take 8 to 16 KiB of metadata
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


async def fetch_authorization(server: ServerConfig) -> Headers:
    """Return an `authorization` header for each of the server's call credentials.

    `OSError` has the reason if one fails.
    """
    tokens = [await run_in_thread(partial(read_token, each.path)) for each in server.call_credentials]
    if isinstance(server.credentials, GoogleDefault):
        tokens.append(await run_in_thread(_fetch_google_token))  # Google's library for these tokens blocks
    return [(b"authorization", b"Bearer " + token.encode()) for token in tokens]


def read_token(path: str) -> str:
    """Return the JWT in that file. The server judges it; here it only has to be a JWT with an expiry (A97)."""
    try:
        # No more, as the path may be that of a log, or of a device without an end.
        with open(path, "rb") as file:
            content = file.read(_MAX_TOKEN_FILE + 1)
        token = content.decode("ascii").strip()
    except UnicodeDecodeError:
        raise OSError(f"jwt_token_file {path} has no JWT; write a token there") from None
    except OSError as error:
        raise OSError(f"jwt_token_file {path} cannot be read: {error.strerror or error}") from None
    if len(content) > _MAX_TOKEN_FILE:
        raise OSError(f"jwt_token_file {path} has more than {_MAX_TOKEN_FILE} bytes; write one token there")
    if not _has_expiry(token):
        raise OSError(f"jwt_token_file {path} has no JWT with an exp field; write a token there")
    return _check_sendable(token, f"jwt_token_file {path}")


def _check_sendable(token: str, source: str) -> str:
    """Return the token, or raise `OSError` if a header cannot have it: base64 decoders ignore line ends in it."""
    if not token or (error_text := describe_flaw(token)):
        raise OSError(f"{source}: its token {f'has {error_text}' if token else 'is empty'}, so it cannot be sent")
    return token


def _has_expiry(token: str) -> bool:
    try:
        # JWTs omit the padding of base64 (RFC 7515, 2), and b64decode requires it.
        payload = token.split(".")[1]
        claims = parse_json(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return isinstance(claims, dict) and isinstance(claims.get("exp"), int | float)
    except (IndexError, ValueError):
        return False


def _fetch_google_token() -> str:
    auth, transport = import_module("google.auth"), import_module("google.auth.transport.requests")
    try:
        credentials, _ = auth.default(scopes=[_SCOPE])
    except Exception as error:  # google.auth raises many types for a bad file of credentials
        raise OSError(f"google_default: no token: {str(error) or type(error).__name__}") from None
    try:
        credentials.refresh(transport.Request())
    except Exception as error:  # only its type is shown: its text may quote the token endpoint's response
        raise OSError(f"google_default: no token: its fetch failed with {type(error).__name__}") from None
    return _check_sendable(credentials.token or "", "google_default")
