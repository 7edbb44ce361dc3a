"""Certificates, keys and revocation lists come as the path of a file, or as the content itself."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from msgspec import Struct


class FileContent(Struct, frozen=True):
    """The content in place of a file's path. Its repr has the size only, because it may be a private key."""

    data: bytes

    def __repr__(self) -> str:
        return f"<{len(self.data):,} bytes>"


FileSource: TypeAlias = str | FileContent
"""A path or a content; an empty path means that there is neither."""


def origin(source: FileSource) -> str:
    """Return where a content is from, as messages have it: `of /etc/ca.pem`."""
    return "given as bytes" if isinstance(source, FileContent) else f"of {source}"


def read_source(source: FileSource) -> bytes:
    """Return the bytes of a source; `OSError` has the reason without the path."""
    if isinstance(source, FileContent):
        return source.data
    try:
        with open(source, "rb") as file:
            return file.read()
    except OSError as error:
        raise OSError(error.strerror or str(error)) from None
    except ValueError as error:  # the path has a NUL
        raise OSError(str(error)) from None


@contextmanager
def as_path(content: FileContent) -> Iterator[str]:
    """Yield a path at which OpenSSL finds the content while the block lasts: it reads certificates from paths only."""
    try:
        # In memory, so that a private key reaches no disk.
        descriptor = os.memfd_create("trxds", os.MFD_CLOEXEC)
    except (AttributeError, OSError):  # no Linux, or a system that forbids it
        with tempfile.NamedTemporaryFile() as file:  # readable by this user only
            file.write(content.data)
            file.flush()
            yield file.name
        return
    with open(descriptor, "wb") as memory:
        memory.write(content.data)
        memory.flush()
        yield f"/proc/self/fd/{descriptor}"  # each opening reads it from its beginning
