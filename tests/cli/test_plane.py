"""`trxds plane`: the file's resources are served, changes are pushed, and a bad file changes nothing."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner
from support.ports import needs_ipv6
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds.cli.control_plane import MAX_LOOKS_AWAY, ServedResources, WatchedFile, read_for_clients, serve_file
from trxds.cli.main import main
from trxds.testing import Call, ManagementServer, resources, serve, unary

METHOD = "/shop.Cart/Add"


def reading_of(*found: dict[str, Any]) -> Any:
    return read_for_clients(json.dumps(found))


def write(file: Path, *found: dict[str, Any]) -> None:
    """As an editor does it: whole, and by renaming."""
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(found), "utf-8")
    os.replace(fresh, file)


def shop_at(address: str) -> list[dict[str, Any]]:
    return [
        resources.listener("shop", routes="r"),
        resources.routes("r", resources.route("cart")),
        resources.cluster("cart"),
        resources.endpoints("cart", resources.locality(address)),
    ]


def test_a_change_of_the_resource_file_is_reported_as_a_difference() -> None:
    served = ServedResources(ManagementServer())
    a, b, c = (resources.cluster(name) for name in "abc")
    assert served.replace_with(reading_of(a, b)) == "serving 2 resources: 2 new or changed, 0 removed"
    assert served.replace_with(reading_of(a, c)) == "serving 2 resources: 1 new or changed, 1 removed"
    assert served.replace_with(reading_of(a)) == "serving 1 resource: 0 new or changed, 1 removed"


def test_an_unchanged_resource_file_is_not_reported(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    write(file, resources.cluster("a"))
    look = WatchedFile(file)
    assert look.read_if_changed() == reading_of(resources.cluster("a"))
    assert look.read_if_changed() is None


def test_a_file_that_is_away_for_a_moment_is_no_news(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    write(file, resources.cluster("a"))
    look = WatchedFile(file)
    look.read_if_changed()
    file.unlink()
    assert look.read_if_changed() is None
    write(file, resources.cluster("b"))
    assert look.read_if_changed() == reading_of(resources.cluster("b"))


def test_a_file_that_stays_away_is_a_problem_once(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text("[]")
    look = WatchedFile(file)
    look.read_if_changed()
    file.unlink()
    found = [reading for _ in range(3 * MAX_LOOKS_AWAY) if (reading := look.read_if_changed()) is not None]
    assert [str(problem) for (problem,) in (reading.problems for reading in found)] == [
        "cannot be read: No such file or directory"
    ]


def test_a_file_that_comes_back_is_read_whatever_its_time_size_and_inode_are(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    write(file, resources.cluster("a"))
    look, before = WatchedFile(file), file.stat()
    look.read_if_changed()
    file.unlink()
    assert look.read_if_changed() is None
    write(file, resources.cluster("b"))  # it gets the inode that is free
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert look.read_if_changed() == reading_of(resources.cluster("b"))


def test_a_file_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_bytes(b"\xff\xfe\xff")
    (problem,) = WatchedFile(file).read_if_changed().problems
    assert str(problem).startswith("line 1: not UTF-8: ")


def test_a_file_that_is_bad_from_the_start_ends_the_command_with_its_problems(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text("- name: a\n", "utf-8")
    result = CliRunner().invoke(main, ["plane", str(file)])
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        f"{file}: line 1: '@type' is missing",
        f"{file}: 1 problem; nothing to serve",
    ]


def test_a_resource_that_clients_reject_is_reported_and_served(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    write(file, {**resources.cluster("cart"), "lb_policy": "MAGLEV"}, resources.cluster("good"))
    said: list[str] = []

    async def serve_for_a_moment() -> None:
        with trio.move_on_after(60) as serving:
            await serve_file(file, 0, lambda line: serving.cancel() if "GRPC_XDS" in line else said.append(line))

    trio.run(serve_for_a_moment)
    refused, serving = said
    assert refused.startswith(
        f'{file}: line 1: clients refuse CDS resource "cart" (NACK): errors validating Cluster resource: [field:lb_'
    )
    assert serving.startswith("serving 2 resources: ")


def test_a_provider_of_certificates_may_be_in_the_clients_bootstrap() -> None:
    named = {"ca_certificate_provider_instance": {"instance_name": "spire"}}
    tls = {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": {"validation_context": named},
    }
    secured = {**resources.cluster("cart"), "transport_socket": {"name": "tls", "typed_config": tls}}
    assert reading_of(secured).remarks == ()


def test_a_port_that_is_taken_is_named_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    write(file, resources.cluster("a"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(main, ["plane", str(file), "--port", str(port)])
    assert result.exit_code == 1
    assert f"127.0.0.1:{port}: " in result.output and "Address already in use" in result.output
    assert "--port" in result.output


@pytest.mark.parametrize("host", ["plane.example", "10.0.0", "", "127.0.0.1:18000"])
def test_a_host_that_is_no_ip_address_is_a_usage_error(host: str, tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    write(file, resources.cluster("a"))
    result = CliRunner().invoke(main, ["plane", str(file), "--host", host])
    assert result.exit_code == 2
    assert f"{host!r} is no IP address of this machine, such as 127.0.0.1, 0.0.0.0 or ::1" in result.output


@pytest.mark.parametrize(
    ("host", "shown", "is_open"),
    [
        ("127.0.0.2", "127.0.0.2", False),
        pytest.param("::1", "[::1]", False, marks=needs_ipv6),
        ("0.0.0.0", "HOSTNAME", True),
    ],
)
async def test_the_control_plane_listens_at_the_host_that_is_asked_for(
    host: str, shown: str, is_open: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "HOSTNAME")
    file = tmp_path / "mesh.yaml"
    write(file, resources.cluster("a"))
    said = Said()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_file, file, 0, said.say, host)
        line = await said.wait_for("GRPC_XDS_BOOTSTRAP_CONFIG=")
        uri = json.loads(line.partition("=")[2].strip("'"))["xds_servers"][0]["server_uri"]
        assert uri.rpartition(":")[0] == shown
        stream = await trio.open_tcp_stream("127.0.0.1" if is_open else host, int(uri.rpartition(":")[2]))
        await stream.aclose()
        nursery.cancel_scope.cancel()
    assert any("without TLS" in each for each in said.lines) is is_open


class Said:
    """What the command printed, line by line, to be waited for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._more = trio.Event()

    def say(self, line: str) -> None:
        self.lines.append(line)
        self._more.set()
        self._more = trio.Event()

    async def wait_for(self, text: str) -> str:
        with trio.fail_after(60):
            while True:
                found = [line for line in self.lines if text in line]
                if found:
                    return found[0]
                await self._more.wait()


@asynccontextmanager
async def cart_that_answers(name: bytes) -> AsyncIterator[str]:
    async def answer(request: bytes, call: Call) -> bytes:
        return name

    async with serve({METHOD: unary(answer)}) as server:
        yield server.address


async def test_a_good_change_reaches_clients_and_a_bad_one_does_not(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    said = Said()
    async with cart_that_answers(b"old") as old, cart_that_answers(b"new") as new, trio.open_nursery() as nursery:
        write(file, *shop_at(old))
        nursery.start_soon(serve_file, file, 0, said.say)
        line = await said.wait_for("GRPC_XDS_BOOTSTRAP_CONFIG=")
        bootstrap = json.loads(line.partition("=")[2].strip("'"))
        async with trxds.open_channel("xds:///shop", bootstrap=bootstrap) as channel:
            add = channel.method(METHOD)
            assert await add(b"", timeout=60) == b"old"

            file.write_text("- nonsense", "utf-8")
            assert await said.wait_for("line 1: must be a mapping with '@type'")
            assert await said.wait_for("the last valid version is still served")
            assert await add(b"", timeout=60) == b"old"

            write(file, *shop_at(new))
            await said.wait_for("serving 4 resources: 1 new or changed, 0 removed")
            with trio.fail_after(60):
                while await add(b"", timeout=60) != b"new":
                    await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
