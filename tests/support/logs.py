"""What a test finds in the log."""

import logging


def lines(caplog, logger, level=logging.INFO):
    """The lines of that logger and level since the last look."""
    found = [each.getMessage() for each in caplog.records if (each.name, each.levelno) == (f"trxds.{logger}", level)]
    caplog.clear()
    return found
