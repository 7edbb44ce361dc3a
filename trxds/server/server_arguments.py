"""A server's arguments are checked before it serves: later their errors would come out of its tasks, in groups."""

from __future__ import annotations

import inspect
import ssl
from collections.abc import Mapping
from typing import Any

from trxds.core.arguments import check_callable, check_type, check_whole

from .server_limits import ServerLimits

_MAX_STREAMS = 2**32 - 1  # RFC 9113 §6.5.1: the value of a setting has 32 bits


def check_handlers(handlers: Mapping[Any, Any], fallback: Any) -> None:
    """Raise `ValueError` for a path of another form, and `TypeError` for a handler that is no function of a call."""
    for path, handler in handlers.items():
        if not (isinstance(path, str) and path.startswith("/")):
            raise ValueError(f"handler path {path!r} is not of the form /package.Service/Method")
        _check_handler(f"the handler of {path}", handler)
    if fallback is not None:
        _check_handler("fallback", fallback)


def _check_handler(name: str, handler: Any) -> None:
    check_callable(name, handler, "a function of the call")
    if not takes_arguments(handler, 1):
        kinds = "unary, server_streaming, client_streaming or bidi_streaming"
        raise TypeError(f"{name} takes other arguments than the call; wrap the function in {kinds}")


def takes_arguments(function: Any, number: int) -> bool:
    """Return whether a function can be called with so many arguments; True if that cannot be known."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * number)
    except TypeError:
        return False
    return True


def check_options(handlers: object, address: object, network: object, tls: object) -> None:
    """Raise `TypeError` for an option of another type."""
    if handlers is not None:
        check_type("handlers", handlers, Mapping, "a mapping from paths to handlers; `add_service` takes a servicer")
    check_type("address", address, str, "a text such as '127.0.0.1:0'")
    if network is not None and (isinstance(network, type) or not callable(getattr(network, "listen", None))):
        raise TypeError(f"network is {network!r}; it must be an object such as MemoryNetwork(), or None")
    if tls is not None:
        check_type("tls", tls, ssl.SSLContext, "an ssl.SSLContext, or None")


def check_limits(limits: object, max_receive_size: object, max_concurrent_streams: object) -> None:
    """Raise `TypeError` for limits of another type, and `ValueError` for what is no number in its range."""
    check_type("limits", limits, ServerLimits, "a ServerLimits")
    check_whole("max_receive_size", max_receive_size, 0, "a whole number of bytes from 0, for no limit sys.maxsize")
    if max_concurrent_streams is not None:
        form = f"a whole number from 0 to {_MAX_STREAMS}, or None for no limit"
        check_whole("max_concurrent_streams", max_concurrent_streams, 0, form, most=_MAX_STREAMS)
