"""The files of a `file:` server: one file of resources, or all of a directory, read together as one version.

A version with an error anywhere is refused as a whole: half of a change could route calls to a cluster that the other
half has. Links are followed, because a Kubernetes ConfigMap is a directory of links, and it is replaced by one of them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, field

from trxds.core.plural import plural
from trxds.resources.protos import from_json

from .resource_names import canonical

SUFFIXES = (".yaml", ".yml", ".json")
MAX_SHOWN = 3  # problems in the error of a call; the log has all
_TRIES = 3  # while somebody replaces the files

ResourceName: TypeAlias = tuple[str, str]
"""Type URL and name."""
_Stamp: TypeAlias = tuple[tuple[str, int, int, int], ...]


class FileResource(Struct, frozen=True):
    """One resource, a google.protobuf.Any, and its place: "/etc/mesh/cart.yaml: line 3"."""

    value: Any
    place: str


class FilesContent(Struct, frozen=True):
    """One version of the files. With `problems` it has no resources."""

    version: str = ""
    resources: Mapping[ResourceName, FileResource] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def error(self) -> str:
        """Return the problems as one text, with what to do; empty if there are none."""
        if not self.problems:
            return ""
        more = len(self.problems) - MAX_SHOWN
        rest = f"; and {plural(more, 'more problem')}" if more > 0 else ""
        return f"{'; '.join(self.problems[:MAX_SHOWN])}{rest}; correct the file, which is read again when it changes"


class ResourceFiles:
    """The file or directory at `path`. It blocks, so it is for a thread."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._stamp: _Stamp | None = None
        self._has_content = False  # the last result had been read
        self._suspected = ""  # an error that was seen once
        self._reported = ""  # the error that was the last result

    def __repr__(self) -> str:
        return f"<ResourceFiles {self.path}>"

    def read_if_changed(self) -> FilesContent | None:
        """Return the content; None if it has not changed since the last call, or is being replaced at this moment."""
        try:
            return self._read_stable()
        except OSError as error:
            return self._unreadable(f"{_as_text(error.filename or self.path)}: {error.strerror or error}")

    def _read_stable(self) -> FilesContent | None:
        for _ in range(_TRIES):
            stamp = tuple(self._look())
            if stamp == self._stamp:
                return None
            texts = {name: Path(name).read_bytes() for name, *_ in stamp}
            # A directory that was replaced in between would give a mixture of two versions.
            if stamp == tuple(self._look()):
                self._stamp, self._has_content = stamp, True
                self._suspected = self._reported = ""
                return _read(self.path, texts)
        return None

    def _unreadable(self, error: str) -> FilesContent | None:
        """Return the error, once."""
        self._stamp = None
        # While files are replaced, one may be missing for a moment, so a second look decides.
        if error == self._reported:
            return None
        if self._has_content and error != self._suspected:
            self._suspected = error
            return None
        self._reported, self._has_content = error, False
        return FilesContent(problems=(error,))

    def _look(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield the files, with what shows that one was changed or replaced."""
        for name in self._names():
            found = os.stat(name)
            if stat.S_ISDIR(found.st_mode) and name != str(self.path):
                continue
            if not stat.S_ISREG(found.st_mode):
                raise OSError(0, "is no ordinary file", name)
            yield name, found.st_mtime_ns, found.st_size, found.st_ino

    def _names(self) -> list[str]:
        if not self.path.is_dir():
            return [str(self.path)]
        # Names with a dot are those of editors, and of a ConfigMap's own links.
        names = sorted(each for each in os.listdir(self.path) if not each.startswith(".") and each.endswith(SUFFIXES))
        return [str(self.path / each) for each in names]


def _read(path: Path, texts: Mapping[str, bytes]) -> FilesContent:
    if not texts:
        kinds = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        return FilesContent(problems=(f"{path}: no file ends in {kinds}",))
    resources: dict[ResourceName, FileResource] = {}
    problems: list[str] = []
    digest = sha256()
    for file, data in texts.items():
        digest.update(data)
        problems += _read_file(_as_text(file), data, resources)
    if problems:
        return FilesContent(problems=tuple(problems))
    return FilesContent(digest.hexdigest()[:12], resources)


def _as_text(path: str | Path) -> str:
    """Return the path as a text that a NACK and a log can have: the name of a file need not be UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _read_file(file: str, data: bytes, resources: dict[ResourceName, FileResource]) -> Iterator[str]:
    """Add the resources of a file, and yield its problems."""
    from trxds.resources.resource_file import read_resource_file  # YAML is loaded by programs that read files only

    try:
        found = read_resource_file(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        yield f"{file}: line {line}: not UTF-8 text"
        return
    yield from (f"{file}: {problem}" for problem in found.problems)
    for (type_url, name), value in found.resources.items():
        place = f"{file}: line {found.lines[type_url, name]}"
        key = type_url, canonical(name)
        if key in resources:
            yield f"{place}: {name!r} is there already, in {resources[key].place}"
        else:
            resources[key] = FileResource(from_json(value), place)
