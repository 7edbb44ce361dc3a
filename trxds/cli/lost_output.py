"""What a command does whose output cannot be written: the disk is full, or the reader of its pipe has left.

The errors come from wherever a command prints, also out of its tasks. Those of files have a file's name, and those of
sockets are other exceptions in Trio, so the numbers tell them apart.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from io import UnsupportedOperation
from typing import TextIO

import click

from trxds.core.error_text import leaves

_NUMBERS = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def output_error(error: BaseException) -> OSError | None:
    """Return the error of writing the output that an exception is, or has in its groups; None if there is none."""
    for each in leaves(error):
        if isinstance(each, OSError) and each.errno in _NUMBERS and each.filename is None:
            return each
    return None


def has_reader_left(error: OSError) -> bool:
    """Return whether the reader of the output has left, as `| head -1` does: it has what it wanted."""
    return error.errno == errno.EPIPE


def give_up_output(error: OSError) -> None:
    """Print nothing more. Say why on stderr, unless the reader has left."""
    _silence(sys.stdout)
    try:
        if not has_reader_left(error):
            reason = error.strerror or str(error)
            click.echo(f"Error: the output cannot be written: {reason}; make room, or write it elsewhere", err=True)
        sys.stderr.flush()
    except AttributeError:  # there is no stderr: it was closed when Python began
        pass
    except OSError:
        _silence(sys.stderr)


def _silence(stream: TextIO) -> None:
    """Discard what is left of a stream: Python would write it at its end, and exit with 120 if that fails."""
    with suppress(OSError, UnsupportedOperation, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
