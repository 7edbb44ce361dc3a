"""`trxds plane`: a control plane that serves the resources of a file, and pushes them when the file changes."""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import trio

from trxds.client.shared_xds_client import parse_context
from trxds.core.authority import join_address
from trxds.core.plural import plural
from trxds.resources.filters import HTTP_FILTERS
from trxds.resources.proto_yaml_validator import Problem
from trxds.resources.resource_file import ResourceFile, read_resource_file
from trxds.resources.types import RESOURCE_TYPES
from trxds.testing import ManagementServer
from trxds.testing.resources import Resource, bootstrap

Say: TypeAlias = Callable[[str], None]

POLL_INTERVAL = 0.2  # seconds between two looks at the file
MAX_LOOKS_AWAY = 10  # an editor that replaces the file has it away for less


async def serve_file(file: Path, port: int, say: Say, host: str = "127.0.0.1") -> bool:
    """Serve until cancelled. Return False at once if the file has errors at the start.

    `host` is the IP address to listen at.
    """
    look = WatchedFile(file)
    first = look.read_if_changed() or ResourceFile()
    if first.problems:
        _report_problems(file, first, say, "nothing to serve")
        return False
    served = ServedResources(ManagementServer())
    async with served.plane.serve(join_address(host, port)) as address:
        _report_remarks(file, first, say)
        say(f"{served.replace_with(first)}; the xDS server is at {address}")
        if not ipaddress.ip_address(host).is_loopback:
            say("other machines can reach it: the resources are sent without TLS, to everybody who asks")
        reached = _address_for_clients(host, address)
        say(f"GRPC_XDS_BOOTSTRAP_CONFIG='{json.dumps(bootstrap(reached, node='trxds-plane'))}'")
        await follow(look, served, say)
    return True


def _address_for_clients(host: str, address: str) -> str:
    # Nobody can connect to 0.0.0.0 from another machine; the name of this one is what a client may know.
    everywhere = ipaddress.ip_address(host).is_unspecified
    return f"{socket.gethostname()}:{address.rpartition(':')[2]}" if everywhere else address


async def follow(look: WatchedFile, served: ServedResources, say: Say) -> None:
    while True:
        await trio.sleep(POLL_INTERVAL)
        reading = look.read_if_changed()
        if reading is None:
            continue
        if reading.problems:
            _report_problems(look.file, reading, say, "the last valid version is still served")
        else:
            _report_remarks(look.file, reading, say)
            say(served.replace_with(reading))


def _report_problems(file: Path, reading: ResourceFile, say: Say, consequence: str) -> None:
    for problem in reading.problems:
        say(f"{file}: {problem}")
    say(f"{file}: {plural(len(reading.problems), 'problem')}; {consequence}")


def _report_remarks(file: Path, reading: ResourceFile, say: Say) -> None:
    """Report remarks.

    Their resources are served all the same, because somebody may want to see how a client refuses them.
    """
    for remark in reading.remarks:
        say(f"{file}: {remark}")


class WatchedFile:
    """A file with the time of its last change, which is read before the text so that no change is missed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._stamp: tuple[int, ...] | None = None
        self._looks_away = 0

    def read_if_changed(self) -> ResourceFile | None:
        """Return the file's content; None if it has not changed, or is being replaced at this moment.

        A file that is away for `MAX_LOOKS_AWAY` looks is a problem, once.
        """
        try:
            stat = self.file.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if stamp == self._stamp:
                return None
            text = self.file.read_text("utf-8")
        except OSError as error:
            self._stamp = None  # the next file may get the inode of this one, and its time in the same tick
            self._looks_away += 1
            if self._looks_away != MAX_LOOKS_AWAY:
                return None
            return ResourceFile(problems=(Problem(0, "", f"cannot be read: {error.strerror}"),))
        except UnicodeDecodeError as error:
            self._stamp, self._looks_away = stamp, 0
            return ResourceFile(problems=(Problem(1, "", f"not UTF-8: {error}"),))
        self._stamp, self._looks_away = stamp, 0
        return read_for_clients(text)


class AnyName(frozenset[str]):
    """A set with every name in it: the certificate providers are in each client's bootstrap and unknown here."""

    def __contains__(self, name: object) -> bool:
        return True


def read_for_clients(text: str, certificate_providers: frozenset[str] = AnyName()) -> ResourceFile:
    """Return a file's content, with remarks for clients of trxds in the same environment.

    `certificate_providers` are those of the clients' bootstrap.
    """
    return read_resource_file(text, parse_context(certificate_providers, {}, HTTP_FILTERS))


class ServedResources:
    """The resources that the management server has from the file, to compare with the next version."""

    def __init__(self, plane: ManagementServer) -> None:
        self.plane = plane
        self._resources: dict[tuple[str, str], Resource] = {}

    def replace_with(self, reading: ResourceFile) -> str:
        """Push the difference, new resources before removals. Return a summary for people."""
        before, after = self._resources, reading.resources
        changed = [resource for key, resource in after.items() if before.get(key) != resource]
        gone = [key for key in before if key not in after]
        self.plane.put(*changed)
        for type_url, name in gone:
            self.plane.remove(RESOURCE_TYPES[type_url].kind, name)
        self._resources = after
        return f"serving {plural(len(after), 'resource')}: {len(changed)} new or changed, {len(gone)} removed"
