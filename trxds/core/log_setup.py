"""`TRXDS_LOG` shows trxds's log on stderr, in programs that do not set up logging: `TRXDS_LOG=xds,lb=debug`.

It sets the levels of the loggers that it names. Its handler is silent for a record that the program has a handler of
its own for, so a program that sets up logging later has each line once.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

VARIABLE = "TRXDS_LOG"
LOGGERS = (
    "admin",
    "aio",
    "client",
    "lb",
    "observers",
    "portal",
    "resolver",
    "server",
    "session_affinity",
    "transport",
    "xds",
)
"""The loggers below `trxds`, one for each package that logs; `all` in the variable is all of them."""

LEVELS = ("debug", "info", "warning", "error")

_ROOT = "trxds"
_ALL = "all"
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class StderrHandler(logging.Handler):
    """A handler that writes to what `sys.stderr` is by then, unless the program handles the record itself."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record as one line."""
        try:
            # There is no stderr under pythonw, for example.
            if sys.stderr is not None and not _is_handled(logging.getLogger(record.name)):
                sys.stderr.write(f"{self.format(record)}\n")
        except Exception:
            # As in the handlers of `logging`: a record that cannot be written must not fail the program.
            self.handleError(record)


def set_up_logging(environment: Mapping[str, str]) -> None:
    """Show the log as the variable says, if it is set. Names and levels that are unknown are logged, and no error."""
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return
    levels, unknown = parse(text)
    root = logging.getLogger(_ROOT)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    # A second import of trxds (a reload, say) must not write each line twice.
    if not any(isinstance(each, StderrHandler) for each in root.handlers):
        handler = StderrHandler()
        handler.setFormatter(logging.Formatter(_FORMAT))
        root.addHandler(handler)
    if unknown:
        known = f"{', '.join((_ALL, *LOGGERS))}; a level follows after '=': {', '.join(LEVELS)}"
        root.warning("%s has no effect for %s; it knows %s", VARIABLE, ", ".join(map(repr, unknown)), known)


def parse(text: str) -> tuple[dict[str, int], list[str]]:
    """Return the levels by logger that a value of the variable names, and the parts of it that it does not know."""
    levels: dict[str, int] = {}
    unknown = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, level = (each.strip().lower() for each in part.partition("="))
        name = name.removeprefix(f"{_ROOT}.")
        if name not in (*LOGGERS, _ALL) or (equals and level not in LEVELS):
            unknown.append(part)
        else:
            levels[_ROOT if name == _ALL else f"{_ROOT}.{name}"] = getattr(logging, (level or "info").upper())
    return levels, unknown


def _is_handled(logger: logging.Logger) -> bool:
    """Return whether the program has a handler for the logger's records, of its own or of a logger above."""
    at: logging.Logger | None = logger
    while at is not None:
        if any(not isinstance(each, StderrHandler | logging.NullHandler) for each in at.handlers):
            return True
        # As `logging` hands a record on: up to the first logger that does not propagate.
        at = at.parent if at.propagate else None
    return False
