"""The shape of the house (docs/architecture.md): who may import whom, and who may import trio; nobody imports grpc."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from structure import source
from structure.retired_names import FORBIDDEN, KEPT, RETIRED

pytestmark = pytest.mark.slow

HOUSE = Path(__file__).parent.parent / "trxds"
FILES = sorted(path.relative_to(HOUSE) for path in HOUSE.rglob("*.py"))

FLOORS = {
    "core": 0,
    "resources": 1,
    "transport": 1,
    "xds": 2,
    "server": 2,
    "resolver": 3,
    "lb": 4,
    "session_affinity": 5,
    "admin": 6,  # below the channel, which opens it for a program that gives `admin=`
    "client": 7,
}
# What stands on the house: it may use everything, and no floor may use it.
ROOF = {"": 8, "portal": 9, "testing": 9, "generate": 9, "sync": 10, "aio": 10, "interop": 10, "otel": 10, "cli": 11}
HEIGHT = FLOORS | ROOF

SHELLS = frozenset(
    {
        "xds/file_stream.py",
        "xds/resource_cache.py",
        "xds/xds_client.py",
        "xds/xds_channel.py",
        "xds/lrs_stream.py",
        "xds/ads_stream.py",
        "xds/control_plane_stream.py",
        "session_affinity/first_call.py",
        "session_affinity/session.py",
        "session_affinity/session_metadata.py",
        "resolver/address_source.py",
        "resolver/clusters.py",
        "resolver/dns_resolver.py",
        "resolver/non_xds_resolver.py",
        "resolver/resolve_now.py",
        "resolver/resolver_watch.py",
        "resolver/xds_resolver.py",
        "core/background_nursery.py",
        "core/conflating_queue.py",
        "core/clock.py",
        "core/event_loop.py",
        "core/lifetime.py",
        "lb/child_policy.py",
        "lb/first_pass.py",
        "lb/load_report/orca_oob.py",
        "lb/policy_node.py",
        "lb/policy_node_tasks.py",
        "portal/entry_queue.py",
        "portal/hand_over.py",
        "portal/receive_buffer.py",
        "portal/send_buffer.py",
        "portal/trio_thread.py",
        "portal/worker_tasks.py",
        "transport/run_in_thread.py",
        "transport/connect.py",
        "transport/connection.py",
        "transport/connection_tasks.py",
        "transport/flow_control.py",
        "transport/health_watch.py",
        "transport/http2_connection.py",
        "transport/authority_check.py",
        "transport/http_proxy.py",
        "transport/inline_read.py",
        "transport/keepalive.py",
        "transport/stream_messages.py",
        "transport/pool.py",
        "transport/connection_age.py",
        "transport/reader.py",
        "transport/client_stream.py",
        "transport/subchannel.py",
        "transport/tls.py",
        "transport/transport.py",
        "transport/waiter.py",
        "transport/writer.py",
    }
)
WHOLE_ROOMS_OF_SHELLS = frozenset({"client", "server", "testing", "admin", "cli", "interop", "otel"})


def room_of(path: Path) -> str:
    """The first folder inside trxds; "" is the front door."""
    return path.parts[0] if len(path.parts) > 1 else ""


@cache
def modules_imported(path: Path) -> frozenset[str]:
    """Absolute dotted names of what a file imports, wherever in the file, for types or not."""
    package = ("trxds", *path.parent.parts)
    found: set[str] = set()
    for node in ast.walk(source.tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join((*above, *([node.module] if node.module else [])))
            # `from .. import wire` names a room in its aliases, `from ..wire import pool` in its module.
            found |= {f"{origin}.{alias.name}" for alias in node.names}
    return frozenset(found)


def rooms_imported(path: Path) -> set[str]:
    """The rooms a file imports; a plain name of the front door, such as `trxds.RpcError`, counts as ""."""
    dotted = [name.split(".") for name in modules_imported(path)]
    return {name[1] if name[1:] and name[1] in HEIGHT else "" for name in dotted if name[0] == "trxds"}


def imports(path: Path, *names: str) -> set[str]:
    """Those of the top-level packages `names` that a file imports."""
    return set(names) & {name.partition(".")[0] for name in modules_imported(path)}


def test_every_file_stands_in_a_known_room() -> None:
    assert {room_of(path) for path in FILES} <= HEIGHT.keys()


def test_imports_go_down_only() -> None:
    def above(path: Path) -> set[str]:
        room = room_of(path)
        allowed = {room, "cli"} if path.as_posix() == "__main__.py" else {room}
        return {other for other in rooms_imported(path) - allowed if HEIGHT[other] >= HEIGHT[room]}

    assert {str(path): above(path) for path in FILES if above(path)} == {}


def test_no_file_imports_one_that_imports_it() -> None:
    """By any way, also for types, and inside of functions."""
    assert source.import_circles() == []


def test_what_is_private_is_read_in_its_own_file_only() -> None:
    assert source.private_reads() == []


def test_an_object_has_at_most_25_methods_and_15_attributes() -> None:
    large = [each for each in source.class_sizes() if each.methods > 25 or each.attributes > 15]
    assert [str(each) for each in large] == []


@pytest.mark.parametrize("room", RETIRED)
def test_a_room_defines_no_retired_name(room: str) -> None:
    defined = {(path.as_posix(), name) for path in FILES if room_of(path) == room for name in source.definitions(path)}
    assert {(path, name) for path, name in defined if name in RETIRED[room]} == {
        (path, name) for path, name in KEPT if path.startswith(f"{room}/")
    }


def test_no_name_has_a_word_without_a_standard_use() -> None:
    def parts(name: str) -> set[str]:
        return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+", name)}

    assert [(str(path), name) for path in FILES for name in source.names(path) if parts(name) & FORBIDDEN] == []


def test_trio_is_imported_in_the_shells_only() -> None:
    pure = [path for path in FILES if path.as_posix() not in SHELLS and room_of(path) not in WHOLE_ROOMS_OF_SHELLS]
    assert [str(path) for path in pure if imports(path, "trio")] == []


def test_no_file_imports_grpc() -> None:
    assert [str(path) for path in FILES if imports(path, "grpc")] == []


def test_one_file_knows_asyncio() -> None:
    assert [path.as_posix() for path in FILES if imports(path, "asyncio")] == ["aio/hand_over.py"]


def test_only_what_is_for_threads_knows_threads() -> None:
    assert [path.as_posix() for path in FILES if imports(path, "threading", "concurrent", "anyio")] == [
        "aio/hand_over.py",
        "client/lifecycle.py",  # its thread tells a Trio run
        "portal/trio_thread.py",
        "sync/calls.py",
        "sync/channel.py",
        "sync/hand_over.py",
        "testing/simulation/scheduling.py",  # each thread that simulates has a generator of its own
    ]


def test_the_clocks_of_the_machine_are_read_by_one_file_and_where_no_simulation_comes() -> None:
    assert [path.as_posix() for path in FILES if imports(path, "time")] == [
        "admin/page/viewer.py",
        "admin/state_stream/stream.py",
        "cli/running/show.py",
        "core/determinism.py",
        "portal/trio_thread.py",
    ]


def test_no_file_makes_a_random_generator_that_a_simulation_cannot_seed() -> None:
    def unseeded(path: Path) -> bool:
        calls = (node for node in ast.walk(source.tree_of(path)) if isinstance(node, ast.Call))
        return any(isinstance(each.func, ast.Name) and each.func.id == "Random" and not each.args for each in calls)

    # The token of a page that a command serves must not be guessed, and no simulation runs a command.
    drawing = [path.as_posix() for path in FILES if unseeded(path) or imports(path, "secrets", "uuid")]
    assert drawing == ["cli/running/commands.py"]
    drawing = [path for path in FILES if {"random.random", "random.choice"} & modules_imported(path)]
    assert [path.as_posix() for path in drawing] == []


def test_one_file_knows_the_private_parts_of_trio() -> None:
    private = [path for path in FILES if any(name.startswith("trio._") for name in modules_imported(path))]
    assert [path.as_posix() for path in private] == ["testing/simulation/scheduling.py"]


def test_only_its_own_room_knows_opentelemetry() -> None:
    assert {room_of(path) for path in FILES if imports(path, "opentelemetry")} == {"otel"}


def test_generated_messages_are_imported_in_few_files() -> None:
    importing = [path.as_posix() for path in FILES if imports(path, "envoy", "xds", "udpa")]
    assert importing == ["admin/protos.py", "resources/generated_messages.py", "resources/orca_messages.py"]


def test_only_the_channel_and_what_admin_reads_of_it_know_every_room() -> None:
    know_all = [path for path in FILES if rooms_imported(path) >= {"transport", "xds", "resolver", "lb"}]
    assert {path.as_posix() for path in know_all if room_of(path) != "client"} == {"admin/channel_source.py"}


def test_load_balancing_knows_neither_wire_nor_ads() -> None:
    assert [str(path) for path in FILES if room_of(path) == "lb" and rooms_imported(path) & {"transport", "xds"}] == []


def test_wire_and_resources_never_see_each_other() -> None:
    for room, other in (("transport", "resources"), ("resources", "transport")):
        assert [str(path) for path in FILES if room_of(path) == room and other in rooms_imported(path)] == []


def test_the_list_of_shells_names_files_that_exist_and_use_trio() -> None:
    assert {name for name in SHELLS if Path(name) not in FILES} == set()
    assert {name for name in SHELLS if not imports(Path(name), "trio")} == set()


def test_a_sticky_rpc_runs_where_neither_grpc_nor_opentelemetry_can_be_imported() -> None:
    program = HOUSE.parent / "tests" / "sticky_without_grpc.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        check=False,
        env={**os.environ, "PYTHONPATH": str(HOUSE.parent)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "one host for the session\n", "")
