"""The directory of resource caches: nobody but the program's own user can read or replace what is in it.

A cache decides where calls go. So the directory and its files belong to this user alone (0700, 0600), no symbolic link
is followed, and a file is replaced as a whole: a reader finds the old one or the new one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

_OWN = "trxds-xds-cache"  # the directory in the one that the program names, which may be used by others too
_SUFFIX = ".cache"
_TEMPORARY = ".tmp"
_LEAST_AGE = 7 * 86_400.0  # seconds
_TEMPORARY_AGE = 3600.0  # seconds after which a file that was never finished is removed


class UnsafeCacheError(OSError):
    """A directory or a file that somebody else could have written; the text names it and the remedy."""


class CacheDirectory(Struct, frozen=True):
    """The caches below a directory that a program names. Its functions block, so they run in a thread."""

    parent: Path

    @property
    def path(self) -> Path:
        return self.parent / _OWN

    def file(self, key: str) -> Path:
        """Return the path of that cache, for messages."""
        return self.path / f"{key}{_SUFFIX}"

    def read(self, key: str) -> bytes | None:
        """Return the content of that cache; None if there is none. `OSError` says what is wrong."""
        try:
            with self._open() as directory:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
                file = os.open(f"{key}{_SUFFIX}", flags, dir_fd=directory)
                with open(file, "rb") as opened:
                    _check_own(os.fstat(file), self.file(key), stat.S_ISREG, "delete it")
                    return opened.read()
        except FileNotFoundError:
            return None

    def replace(self, key: str, data: bytes) -> None:
        """Replace that cache, all at once, even if the machine loses power. `OSError` says what is wrong."""
        self.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        with self._open() as directory:
            # Others with one target write the same file: channels of this process, and containers with its process id.
            temporary = f".{key}.{os.urandom(8).hex()}{_TEMPORARY}"
            try:
                _write(directory, temporary, data)
                os.rename(temporary, f"{key}{_SUFFIX}", src_dir_fd=directory, dst_dir_fd=directory)
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
                raise
            os.fsync(directory)

    def remove_old(self, now: float, max_age: float) -> None:
        """Remove caches that nobody wrote for so many seconds, at least a week: of other targets, nodes or servers.

        Other programs may use the directory, and have a longer `max_age` than this one.
        """
        max_age = max(max_age, _LEAST_AGE)
        with self._open() as directory:
            for name in os.listdir(directory):
                limit = max_age if name.endswith(_SUFFIX) else _TEMPORARY_AGE
                if not name.endswith((_SUFFIX, _TEMPORARY)):
                    continue
                # The cache itself is written, so what cannot be removed (a directory, say) is no error of it.
                with suppress(OSError):
                    if now - os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime > limit:
                        os.unlink(name, dir_fd=directory)

    @contextmanager
    def _open(self) -> Iterator[int]:
        """Open the directory once, so that nobody can put another one in its place between two steps."""
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _check_own(os.fstat(directory), self.path, stat.S_ISDIR, "delete it, or chmod 700")
            yield directory
        finally:
            os.close(directory)


def _write(directory: int, name: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o600, dir_fd=directory), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _check_own(found: os.stat_result, path: Path, is_kind: Callable[[int], bool], remedy: str) -> None:
    if not is_kind(found.st_mode):
        raise UnsafeCacheError(f"{path} is no ordinary file or directory; delete it")
    if found.st_uid != os.geteuid():
        raise UnsafeCacheError(f"{path} belongs to user {found.st_uid} and not to this program's; {remedy}")
    if stat.S_IMODE(found.st_mode) & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise UnsafeCacheError(f"{path} can be used by other users (mode {mode:o}); {remedy}")
