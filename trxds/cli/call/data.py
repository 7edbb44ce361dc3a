"""The requests of `-d`: the text itself, a file, or stdin, which is read as it comes."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import AsyncGenerator, Callable
from functools import partial
from io import UnsupportedOperation
from pathlib import Path
from typing import BinaryIO

import trio
from msgspec import Struct

from trxds.cli.exit_codes import USAGE
from trxds.core.json_reader import unicode_problem

from .json_requests import JsonSplitter, JsonText, split_json
from .schema import CallError

_CHUNK = 65536  # bytes


class Data(Struct, frozen=True):
    """The texts of the requests; `source` is what errors call them. `is_stdin`: they are yet to be read."""

    texts: tuple[JsonText, ...] = ()
    source: str = "-d"
    is_stdin: bool = False

    async def read(self) -> AsyncGenerator[JsonText, None]:
        """Yield the texts: of stdin each as soon as it is complete. Raises `CallError` for what is no UTF-8."""
        if not self.is_stdin:
            for text in self.texts:
                yield text
            return
        splitter = JsonSplitter()
        decoder = codecs.getincrementaldecoder("utf-8")()
        read: Callable[[], bytes] = _reader(sys.stdin.buffer)
        try:
            while chunk := await trio.to_thread.run_sync(read, abandon_on_cancel=True):
                for text in splitter.feed(decoder.decode(chunk)):
                    yield text
            for text in (*splitter.feed(decoder.decode(b"", final=True)), *splitter.end()):
                yield text
        except UnicodeDecodeError as error:
            raise _no_utf8("stdin", error) from None


def read_data(value: str | None) -> Data | None:
    """Return the requests of `-d`; None if there is no `-d`. Raises `CallError` for a file that cannot be read."""
    if value is None:
        return None
    if value in ("-", "@", "@-"):
        return Data(source="stdin", is_stdin=True)
    if not value.startswith("@"):
        if unicode_problem(value):
            raise CallError("-d is no UTF-8 text", USAGE)
        return Data(tuple(split_json(value)))
    path = value[1:]
    try:
        return Data(tuple(split_json(Path(path).read_text("utf-8"))), path)
    except UnicodeDecodeError as error:
        raise _no_utf8(path, error) from None
    except OSError as error:
        raise CallError(f"-d: {path}: {error.strerror or error}", USAGE) from None


def _reader(stream: BinaryIO) -> Callable[[], bytes]:
    """Return the function that reads what has come; by the descriptor, for a thread in it may be left behind.

    Python cannot end while a thread that it left behind holds the lock of a buffered stream.
    """
    try:
        return partial(os.read, stream.fileno(), _CHUNK)
    except (UnsupportedOperation, AttributeError):
        return partial(stream.read, _CHUNK)


def _no_utf8(source: str, error: UnicodeDecodeError) -> CallError:
    return CallError(f"-d: {source} is no UTF-8 text ({error.reason} at byte {error.start})", USAGE)
