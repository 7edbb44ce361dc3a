"""`trxds plane`: a file is the control plane; what it says is pushed whenever it changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import trio

from trxds.ground.words import count
from trxds.resources.types import RESOURCE_TYPES
from trxds.testing import ManagementServer
from trxds.testing.resources import Resource, bootstrap

from .resource_file import Reading, read

Say: TypeAlias = Callable[[str], None]

INTERVAL = 0.2  # seconds between two looks at the file


async def serve_file(file: Path, port: int, say: Say) -> bool:
    """Serve until cancelled; False at once when the file is bad from the start."""
    look = Look(file)
    first = look.news() or Reading()
    if first.problems:
        _report(file, first, say, "nothing to serve")
        return False
    served = Served(ManagementServer())
    async with served.plane.serve(f"127.0.0.1:{port}") as address:
        _remark(file, first, say)
        say(f"{served.become(first)}; the xDS server is at {address}")
        say(f"GRPC_XDS_BOOTSTRAP_CONFIG='{json.dumps(bootstrap(address, node='trxds-plane'))}'")
        await follow(look, served, say)
    return True


async def follow(look: Look, served: Served, say: Say) -> None:
    while True:
        await trio.sleep(INTERVAL)
        reading = look.news()
        if reading is None:
            continue
        if reading.problems:
            _report(look.file, reading, say, "what was good last is still served")
        else:
            _remark(look.file, reading, say)
            say(served.become(reading))


def _report(file: Path, reading: Reading, say: Say, consequence: str) -> None:
    for problem in reading.problems:
        say(f"{file}: {problem}")
    say(f"{file}: {count(len(reading.problems), 'problem')}; {consequence}")


def _remark(file: Path, reading: Reading, say: Say) -> None:
    """They are served: to see what a client does with them may be what somebody wants."""
    for remark in reading.remarks:
        say(f"{file}: {remark}")


class Look:
    """The file as it was seen last; the time of its change is asked before its text."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._stamp: tuple[int, ...] | None = None

    def news(self) -> Reading | None:
        """What the file says, or None when it has not changed, or is just being replaced."""
        try:
            stat = self.file.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if stamp == self._stamp:
                return None
            text = self.file.read_text("utf-8")
        except OSError:
            return None
        except UnicodeDecodeError as error:
            text = f"\0 {error}"
        self._stamp = stamp
        return read(text)


class Served:
    """What the management server has from us, so that a change is told as a change."""

    def __init__(self, plane: ManagementServer) -> None:
        self.plane = plane
        self._resources: dict[tuple[str, str], Resource] = {}

    def become(self, reading: Reading) -> str:
        """Push the difference, what is new before what goes; says it in words."""
        before, after = self._resources, reading.resources
        changed = [resource for key, resource in after.items() if before.get(key) != resource]
        gone = before.keys() - after.keys()
        self.plane.put(*changed)
        for type_url, name in gone:
            self.plane.remove(RESOURCE_TYPES[type_url].kind, name)
        self._resources = after
        return f"serving {count(len(after), 'resource')}: {len(changed)} new or changed, {len(gone)} removed"
