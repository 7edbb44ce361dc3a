"""A program's own code may fail in its clean-up when it is cancelled: a nursery makes one group of both exceptions.

`except Exception` does not catch that group, because `trio.Cancelled` is in it. A cancel scope takes only `Cancelled`
out, and the errors would go on alone, to a place that knows nothing of the code.
"""

from __future__ import annotations

import logging
from typing import Any


def log_errors(group: BaseExceptionGroup[Any], log: logging.Logger, text: str, *args: object) -> BaseException:
    """Log the errors of a group, with that text; return what has to go on: `trio.Cancelled` or `KeyboardInterrupt`."""
    errors, others = group.split(Exception)
    if errors is not None:
        log.warning(text, *args, exc_info=errors)
    return others if others is not None else group
