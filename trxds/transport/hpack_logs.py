"""hpack logs at DEBUG what it encodes and decodes; this filter removes the values of our headers, which may be secrets.

hpack has no switch for that, and its debug log is often on together with others. The filter changes only records that
trxds caused: another user of hpack in this process (httpx, say) has its log as before. Where DEBUG is off no record is
made, so the filter costs nothing.
"""

from __future__ import annotations

import logging
from inspect import currentframe
from types import FrameType

HIDDEN = "(not shown by trxds)"

_LOGGERS = ("hpack.hpack", "hpack.table")
_OURS = f"{__name__.partition('.')[0]}."


def hide_values() -> None:
    """Have hpack's loggers leave out the values that trxds gives hpack. Idempotent."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_hide)


def _hide(record: logging.LogRecord) -> bool:
    if record.args and _is_ours(currentframe()):
        args = record.args if isinstance(record.args, tuple) else (record.args,)
        # Sizes and flags are no secrets.
        record.args = tuple([each if isinstance(each, int) else HIDDEN for each in args])
    return True


def _is_ours(frame: FrameType | None) -> bool:
    """Return whether trxds is among the callers: logging runs filters in the stack that made the record."""
    frame = frame.f_back if frame is not None else None
    while frame is not None:
        # In code that was run by `exec`, `__name__` may be None or missing.
        if str(frame.f_globals.get("__name__")).startswith(_OURS):
            return True
        frame = frame.f_back
    return False
