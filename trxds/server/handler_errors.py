"""A handler that has a nursery of its own raises its errors in groups."""

from __future__ import annotations

from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def error_in(error: BaseException, kind: type[E]) -> E | None:
    """Return the first error of a kind that an exception is, or has in its groups; None if there is none."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := error_in(each, kind)) is not None), None)
    return error if isinstance(error, kind) else None
