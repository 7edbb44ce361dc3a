"""A server's arguments are checked before it serves: later their errors would come out of its tasks, in groups."""

from __future__ import annotations

import inspect
import ssl
from collections.abc import Mapping
from typing import Any

from .server_limits import ServerLimits

_MAX_STREAMS = 2**32 - 1  # RFC 9113 §6.5.1: the value of a setting has 32 bits


def check_handlers(handlers: Mapping[Any, object], fallback: object) -> None:
    """Raise `ValueError` for a path of another form, and `TypeError` for a handler that is no function of a call."""
    for path, handler in handlers.items():
        if not (isinstance(path, str) and path.startswith("/")):
            raise ValueError(f"handler path {path!r} is not of the form /package.Service/Method")
        _check_handler(f"the handler of {path}", handler)
    if fallback is not None:
        _check_handler("fallback", fallback)


def _check_handler(name: str, handler: object) -> None:
    if not callable(handler):
        raise TypeError(f"{name} is {handler!r}, and no function")
    try:
        signature = inspect.signature(handler)
    except ValueError:
        return  # a callable that does not say what it takes
    try:
        signature.bind("call")
    except TypeError:
        kinds = "unary, server_streaming, client_streaming or bidi_streaming"
        raise TypeError(f"{name} takes other arguments than the call; wrap the function in {kinds}") from None


def check_options(*, limits: object, tls: object, max_receive_size: object, max_concurrent_streams: int | None) -> None:
    """Raise `TypeError` for an option of another type, and `ValueError` for a number out of its range."""
    for name, value, types, wanted in (
        ("limits", limits, ServerLimits, "a ServerLimits"),
        ("tls", tls, ssl.SSLContext | None, "an ssl.SSLContext, or None"),
        ("max_receive_size", max_receive_size, int, "a number of bytes"),
        ("max_concurrent_streams", max_concurrent_streams, int | None, "a number, or None"),
    ):
        if not isinstance(value, types):
            raise TypeError(f"{name} is {value!r}; it must be {wanted}")
    if max_concurrent_streams is not None and not 0 <= max_concurrent_streams <= _MAX_STREAMS:
        raise ValueError(f"max_concurrent_streams is {max_concurrent_streams}; it must be from 0 to {_MAX_STREAMS}")
