"""The shape of the house (DESIGN §2): who may import whom, who may import trio, and that nobody imports grpc."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent / "trxds"
FILES = sorted(path.relative_to(HOUSE) for path in HOUSE.rglob("*.py"))

FLOORS = {"ground": 0, "resources": 1, "wire": 1, "ads": 2, "config": 3, "lb": 4, "affinity": 5, "channel": 6}
# What stands on the house: it may use everything, and no floor may use it.
ROOF = {"": 7, "testing": 8, "admin": 8, "cli": 9, "live": 9}
HEIGHT = FLOORS | ROOF

SHELLS = frozenset(
    {
        "ads/client.py",
        "ads/stream.py",
        "affinity/session.py",
        "affinity/sweep.py",
        "config/clusters.py",
        "config/resolver.py",
        "config/watcher.py",
        "ground/channels.py",
        "ground/lifetime.py",
        "lb/node.py",
        "wire/connect.py",
        "wire/connection.py",
        "wire/pool.py",
        "wire/stream.py",
        "wire/subchannel.py",
    }
)
WHOLE_ROOMS_OF_SHELLS = frozenset({"channel", "testing", "admin", "cli", "live"})


def room_of(path: Path) -> str:
    """The first folder inside trxds; "" is the front door."""
    return path.parts[0] if len(path.parts) > 1 else ""


def modules_imported(path: Path) -> Iterator[str]:
    """Absolute dotted names of what a file imports, wherever in the file, for types or not."""
    package = ("trxds", *path.parent.parts)
    for node in ast.walk(ast.parse((HOUSE / path).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join((*above, *([node.module] if node.module else [])))
            # `from .. import wire` names a room in its aliases, `from ..wire import pool` in its module.
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def rooms_imported(path: Path) -> set[str]:
    """The rooms a file imports; a plain name of the front door, such as `trxds.RpcError`, counts as ""."""
    dotted = [name.split(".") for name in modules_imported(path)]
    return {name[1] if name[1:] and name[1] in HEIGHT else "" for name in dotted if name[0] == "trxds"}


@pytest.fixture(params=FILES, ids=str)
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def test_every_file_stands_in_a_known_room(path: Path) -> None:
    assert room_of(path) in HEIGHT


def test_imports_go_down_only(path: Path) -> None:
    room = room_of(path)
    above = {other for other in rooms_imported(path) if other != room and HEIGHT[other] >= HEIGHT[room]}
    if path.name == "__main__.py" and room == "":
        above -= {"cli"}  # `python -m trxds` is the command line
    assert not above


def test_trio_is_imported_in_the_shells_only(path: Path) -> None:
    uses_trio = any(name.split(".")[0] == "trio" for name in modules_imported(path))
    assert not uses_trio or path.as_posix() in SHELLS or room_of(path) in WHOLE_ROOMS_OF_SHELLS


def test_no_file_imports_grpc_threads_or_asyncio(path: Path) -> None:
    forbidden = {"grpc", "asyncio", "threading", "concurrent"}
    assert not forbidden & {name.split(".")[0] for name in modules_imported(path)}


def test_generated_messages_are_imported_in_one_file_only(path: Path) -> None:
    generated = {"envoy", "xds", "udpa"} & {name.split(".")[0] for name in modules_imported(path)}
    assert not generated or path.as_posix() == "resources/protos.py"


def test_only_the_channel_knows_every_room(path: Path) -> None:
    knows_all = rooms_imported(path) >= {"wire", "ads", "config", "lb"}
    assert not knows_all or path.as_posix() == "channel/channel.py"


def test_load_balancing_knows_neither_wire_nor_ads() -> None:
    assert all(not rooms_imported(path) & {"wire", "ads"} for path in FILES if room_of(path) == "lb")


def test_the_list_of_shells_names_files_that_exist_and_use_trio() -> None:
    missing = {name for name in SHELLS if Path(name) not in FILES}
    assert not missing
    assert all("trio" in {name.split(".")[0] for name in modules_imported(Path(name))} for name in SHELLS)


STICKY_RPC_WITHOUT_GRPC = """
import sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "grpc":
            raise ImportError("grpc is blocked in this process")


sys.meta_path.insert(0, Blocked())

import trio
import trxds
from trxds.cli.shop import shop, backend


async def main():
    async with trxds.testing.ManagementServer.serve() as plane:
        pass


trio.run(main)
assert "grpc" not in sys.modules
"""
