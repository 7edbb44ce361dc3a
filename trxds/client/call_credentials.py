"""Call credentials prove a caller's identity by metadata, which a function returns for each attempt.

A token must not be readable on its way: a call with credentials fails rather than use a connection without TLS. A
function that fails ends the call with the status that gRPC's other clients use (A54).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from msgspec import Struct

from trxds.core import metadata as md
from trxds.core.arguments import check_callable
from trxds.core.error_text import error_text
from trxds.core.failed_cleanup import log_errors
from trxds.core.metadata import Headers, Pairs
from trxds.core.status import RpcError, Status, StatusCode, rewrite_illegal_status, unavailable
from trxds.transport.health_watch import WatchedHost

_log = logging.getLogger("trxds.client")


class AuthContext(Struct, frozen=True):
    """An `AuthContext` names the call to be authorized.

    `service_url` is as in `https://shop.example/shop.Cart`, with the caller's own authority if the call has one, and
    `method` as in `Add`.
    """

    service_url: str
    method: str


GiveMetadata: TypeAlias = Callable[[AuthContext], Pairs | Awaitable[Pairs]]


@dataclass(frozen=True, slots=True)
class CallCredentials:
    """Call credentials are a function, synchronous or async, that returns the metadata for one attempt of a call.

    An `RpcError` that it raises ends the call with its status (A54 limits the codes); any other exception ends it with
    UNAVAILABLE. The pairs are sent over TLS only, and without TLS the call fails with UNAUTHENTICATED;
    `allow_insecure` is for tests, and for networks that are secure by other means.
    """

    metadata: GiveMetadata
    allow_insecure: bool = False

    def __post_init__(self) -> None:
        check_callable("metadata of CallCredentials", self.metadata, "a function that returns pairs")

    def __repr__(self) -> str:
        """Show the function's name only: the `repr` of a `partial` would show a token among its arguments."""
        name = getattr(self.metadata, "__qualname__", type(self.metadata).__qualname__)
        return f"<CallCredentials {name}{', insecure allowed' if self.allow_insecure else ''}>"


def check_call_credentials(credentials: object) -> None:
    """Raise `TypeError` for another type, such as the function itself, or a token, which the message must not show."""
    if not isinstance(credentials, CallCredentials):
        raise TypeError(f"call credentials are trxds.CallCredentials(function), not {type(credentials).__name__}")


async def authorize(credentials: Iterable[CallCredentials], authority: str, path: str) -> Headers | Status:
    """Return the credentials' header fields, or the status with which the call fails."""
    context = _context(authority, path)
    headers: Headers = []
    for each in credentials:
        check_call_credentials(each)
        try:
            pairs = each.metadata(context)
            headers += md.encode(md.check(await pairs if inspect.isawaitable(pairs) else pairs))
        except RpcError as error:
            return rewrite_illegal_status(error.status, "the call credentials")
        except Exception as error:
            _log.warning("call credentials for %s raised", path, exc_info=error)
            return unavailable(f"{path}: the call credentials raised {error_text(error)}")
        except BaseExceptionGroup as group:
            text = "call credentials for %s raised while they were cancelled"
            raise log_errors(group, _log, text, path) from None
    return headers


def requires_tls(credentials: Iterable[CallCredentials], host: WatchedHost) -> Status | None:
    """Return the status of a call whose credentials may not be sent to that host; None if they may."""
    if host.secure or all(each.allow_insecure for each in credentials):
        return None
    text = f"{host.address}: call credentials are sent over TLS only; open the channel with credentials=trxds.tls()"
    return Status(StatusCode.UNAUTHENTICATED, text)


def _context(authority: str, path: str) -> AuthContext:
    service, _, method = path.rpartition("/")
    # As in grpc-go, the audience of a token has no default port.
    return AuthContext(f"https://{authority.removesuffix(':443')}{service}", method)
