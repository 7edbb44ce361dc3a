"""The errors in an exception of a program's own code, and their text for a status or a warning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from .status import RpcError

E = TypeVar("E", bound=BaseException)


def error_text(error: BaseException) -> str:
    """Return type and message of an exception; of a group, as a nursery raises it, those of the errors in it."""
    return "; ".join(map(_text, leaves(error)))


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of nested groups, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves(each)
    else:
        yield error


def error_in(error: BaseException, kind: type[E]) -> E | None:
    """Return the first error of a kind that an exception is, or has in its groups; None if there is none."""
    return next((each for each in leaves(error) if isinstance(each, kind)), None)


def _text(error: BaseException) -> str:
    if isinstance(error, RpcError):
        return str(error.status)
    name = type(error).__name__
    return f"{name}: {error}" if str(error) else name
