"""What a call shows to prove who makes it: metadata that a function gives, for each attempt anew.

A token goes to nobody who could read it on the way: a call with credentials that is about to use a connection
without TLS fails instead. What may come of a failing function is what gRPC's other clients make of it (A54).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from trxds.core import metadata as md
from trxds.core.metadata import Headers, Value
from trxds.core.status import RpcError, Status, StatusCode, made_here, unavailable
from trxds.transport.subchannel import Subchannel

_log = logging.getLogger("trxds.client")


@dataclass(frozen=True, slots=True)
class AuthContext:
    """The call that is to be authorized: `service_url` as in `https://shop.example/shop.Cart`, `method` as in `Add`."""

    service_url: str
    method: str


Pairs: TypeAlias = Iterable[tuple[str, Value]]
GiveMetadata: TypeAlias = Callable[[AuthContext], Pairs | Awaitable[Pairs]]


@dataclass(frozen=True, slots=True)
class CallCredentials:
    """`metadata`, a plain or an async function, gives the pairs for one attempt of a call.

    An `RpcError` that it raises has the status of the call; for anything else that is UNAVAILABLE. The pairs are
    sent over TLS only, and without it the call fails with UNAUTHENTICATED; `allow_insecure` is for tests, and for
    networks that are secure by other means.
    """

    metadata: GiveMetadata
    allow_insecure: bool = False

    def __repr__(self) -> str:
        """By the function's name: a `partial` would show the token that it was given."""
        name = getattr(self.metadata, "__qualname__", type(self.metadata).__qualname__)
        return f"<CallCredentials {name}{', insecure allowed' if self.allow_insecure else ''}>"


def check_call_credentials(given: object) -> None:
    """`TypeError` for what are none, such as the function itself, or a token, which must not be shown."""
    if not isinstance(given, CallCredentials):
        raise TypeError(f"call credentials are trxds.CallCredentials(function), not {type(given).__name__}")


async def authorize(credentials: Iterable[CallCredentials], authority: str, path: str) -> Headers | Status:
    """What to send beside the call's own metadata, or why the call cannot be made."""
    context = _context(authority, path)
    headers: Headers = []
    for each in credentials:
        check_call_credentials(each)
        try:
            pairs = each.metadata(context)
            headers += md.encode(md.check(await pairs if inspect.isawaitable(pairs) else pairs))
        except RpcError as error:
            return made_here(error.status, "the call credentials")
        except Exception as error:
            _log.warning("call credentials for %s raised", path, exc_info=error)
            return unavailable(f"{path}: the call credentials raised {type(error).__name__}: {error}")
    return headers


def requires_tls(credentials: Iterable[CallCredentials], host: Subchannel) -> Status | None:
    """Why these credentials cannot be shown to that host."""
    if host.secure or all(each.allow_insecure for each in credentials):
        return None
    text = f"{host.address}: call credentials are sent over TLS only; open the channel with credentials=trxds.tls()"
    return Status(StatusCode.UNAUTHENTICATED, text)


def _context(authority: str, path: str) -> AuthContext:
    service, _, method = path.rpartition("/")
    return AuthContext(f"https://{authority.removesuffix(':443')}{service}", method)
