"""The commands beside a running program, at a real unix socket: a drain, a NACK, a missing cluster, a moved session."""

import json
import sys
from contextlib import AsyncExitStack
from subprocess import PIPE

import pytest
import trio
from support.mesh import Mesh, ask
from support.running_program import Shell, program, until
from trio.testing import wait_all_tasks_blocked

import trxds
import trxds.admin
from trxds import RpcError
from trxds.cli.running.pages import REASONS
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow

FAULT = "envoy.extensions.filters.http.fault.v3.HTTPFault"


def cells(line):
    return [cell for cell in line.split("  ") if cell]


# -- each on a real problem


async def test_the_lb_command_shows_a_draining_host(tmp_path):
    async with program(tmp_path) as (mesh, _, shell):
        gone = mesh.hosts[0]
        mesh.endpoints("cart", xds.locality(*mesh.hosts, zone="b", health={gone: "DRAINING"}))
        await wait_all_tasks_blocked()
        lines = await shell.lines("lb")
        [row] = [cells(line) for line in lines if line.startswith(gone)]
        assert [cell.strip() for cell in row] == [gone, "cart", "0", "b", "DRAINING", "-", "1", "0"]
        assert any(line.rstrip().endswith("2 of 2 endpoints READY") for line in lines)


async def test_the_xds_command_shows_a_nack(tmp_path):
    async with program(tmp_path) as (mesh, channel, shell):
        mesh.plane.put(xds.cluster("cart") | {"lb_policy": "MAGLEV"})
        await wait_all_tasks_blocked()
        lines = await shell.lines("xds", exit_code=1)
        [row] = [line for line in lines if line.startswith("CDS")]
        assert row.split()[:4] == ["CDS", "cart", "nacked", "1"]
        assert "LB policy is not supported" in row
        [line, warning] = await shell.lines("ruok")  # what was there before is still good
        assert line == "shop (xds:///shop): ok, READY"
        assert warning.startswith('  warning: CDS resource "cart" is nacked: ')
        assert warning.endswith("; version 1 stays in use")
        assert await ask(channel)


async def test_the_ruok_command_shows_an_override_of_another_filters_type(tmp_path):
    async with program(tmp_path) as (mesh, channel, shell):
        fault = {
            "@type": f"type.googleapis.com/{FAULT}",
            "abort": {"grpc_status": 10, "percentage": {"numerator": 100}},
        }
        mesh.route(xds.route("cart") | {"typed_per_filter_config": {"stateful_session": fault}})
        await wait_all_tasks_blocked()
        assert await ask(channel), "it is left out"
        [line, warning] = await shell.lines("ruok")
        assert line == "shop (xds:///shop): ok, READY"
        assert warning.startswith('  warning: RDS resource "routes" (server ')
        assert 'route 0 of virtual host "routes": typed_per_filter_config["stateful_session"] has the type ' in warning
        assert FAULT in warning and "envoy.extensions.filters.http.stateful_session.v3.StatefulSession;" in warning
        [row] = await shell.rows("ruok")
        assert (row["ok"], [f"  warning: {each}" for each in row["warnings"]]) == (True, [warning])


async def test_the_ruok_command_shows_a_cluster_that_asks_for_tls_in_vain(tmp_path):
    async with program(tmp_path) as (mesh, _, shell):
        tls = {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": {"validation_context": {"system_root_certs": {}}},
        }
        mesh.plane.put(xds.cluster("cart") | {"transport_socket": {"name": "tls", "typed_config": tls}})
        await wait_all_tasks_blocked()
        [line, warning] = await shell.lines("ruok")
        assert line == "shop (xds:///shop): ok, READY"
        assert warning.startswith('  warning: CDS resource "cart" (server ') and "it asks for TLS" in warning


async def test_the_ruok_command_shows_a_missing_cluster(tmp_path):
    async with program(tmp_path) as (mesh, channel, shell):
        mesh.plane.remove("CDS", "cart")
        await wait_all_tasks_blocked()
        with pytest.raises(RpcError):
            await ask(channel)
        [line, problem, warning] = await shell.lines("ruok", exit_code=1)
        assert line == "shop (xds:///shop): NOT OK, TRANSIENT_FAILURE"
        assert problem.startswith("  cluster cart: cluster cart without a usable resource; ")
        assert 'CDS resource "cart"' in problem
        assert warning.startswith('  warning: CDS resource "cart" is does_not_exist')
        assert (await shell.lines("lb", exit_code=1))[0].startswith(
            "shop (xds:///shop) TRANSIENT_FAILURE: 2 calls, 1 failed"
        )


async def test_the_sessions_command_shows_a_session_that_moved(tmp_path):
    async with program(tmp_path) as (mesh, channel, shell), channel.session() as session:
        old = await ask(session)
        mesh.endpoints("cart", [host for host in mesh.hosts if host != old])
        await wait_all_tasks_blocked()
        new = await ask(session)
        [_, row] = await shell.lines("sessions")
        told = [cell.strip() for cell in cells(row)]
        assert (told[:3], told[4:6]) == (["shop/1", new, "cart"], ["2", "1"])
        words = f'{REASONS["unknown_host"]}, EDS resource "cart" version 2'
        assert told[6].endswith(f"ago from {old}: unknown_host ({words})")
        [data] = await shell.rows("sessions")
        assert (data["key"], data["last_move"]["reason"]) == ("shop/1", "unknown_host")


async def test_the_sessions_of_each_host_have_their_share(tmp_path):
    async with program(tmp_path, hosts=3) as (_, channel, shell), AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(channel.session()) for _ in range(4)]
        for session in opened:
            await ask(session)
        host = opened[0].host
        count = sum(session.host == host for session in opened)
        head, *rows = [cells(line) for line in await shell.lines("sessions", "--by-host")]
        assert " ".join(cell.strip() for cell in head) == "HOST CHANNEL CLUSTER HEALTH STATE SESSIONS SHARE FAIR"
        row = next(row for row in rows if row[0].strip() == host)
        assert [cell.strip() for cell in row[1:]] == [
            "shop",
            "cart",
            "HEALTHY",
            "READY",
            str(count),
            f"{count / 4:.0%}",
            "33%",
        ]
        assert sum(int(row[5]) for row in rows) == 4


async def test_the_ruok_command_shows_hosts_that_cannot_be_reached(tmp_path):
    async with program(tmp_path, hosts=1) as (mesh, channel, shell):
        mesh.servers[mesh.hosts[0]].stop()
        mesh.network.refuse(mesh.hosts[0])
        await until(lambda: channel.state is trxds.Connectivity.TRANSIENT_FAILURE)
        [_, problem, warning] = await shell.lines("ruok", exit_code=1)
        assert problem.startswith("  cluster cart: ")
        assert f"{mesh.hosts[0]}: cannot connect" in problem
        assert warning.startswith(f"  warning: no connection to host {mesh.hosts[0]}: ")


# -- ruok


async def test_the_ruok_command_fails_unless_all_channels_are_ok(tmp_path):
    address = f"unix:{tmp_path}/x.sock"
    async with Mesh.run(1) as mesh, mesh.channel() as one, mesh.channel("xds:///nothing") as other:
        await ask(one)
        async with trxds.admin.serve(one, other, address=address):
            [good, bad] = await Shell(address).rows("ruok", exit_code=1)
    assert (good["channel"], good["ok"], good["problems"]) == ("shop", True, [])
    assert (bad["channel"], bad["ok"], bad["state"]) == ("nothing", False, "CONNECTING")
    assert "trxds xds" in bad["problems"][0]


# -- --watch


async def test_a_page_is_shown_again_when_something_has_changed_and_ends_with_the_program(tmp_path):
    address = f"unix:{tmp_path}/x.sock"
    command = [sys.executable, "-m", "trxds", "sessions", "--watch", "--json", address]
    async with Mesh.run(1) as mesh:
        async with mesh.channel() as channel, trxds.admin.serve(channel, address=address), channel.session() as session:
            await ask(session)
            beside = await trio.lowlevel.open_process(command, stdout=PIPE, stderr=PIPE)
            said = Lines(beside.stdout)
            assert json.loads(await said.receive())["calls"] == 1
            await ask(session)
            assert json.loads(await said.receive())["calls"] == 2
        assert await beside.wait() == 3
        assert (
            await beside.stderr.receive_some() == f"{address}: the program has ended, or closed its channel\n".encode()
        )


@pytest.mark.parametrize("command", [["sessions", "--watch"], ["lb", "--watch", "--json"]])
async def test_a_closed_pipe_ends_a_command_without_an_error(tmp_path, command):
    async with program(tmp_path) as (_, channel, shell), channel.session() as session:
        line = [sys.executable, "-m", "trxds", *command, shell.address]
        beside = await trio.lowlevel.open_process(line, stdout=PIPE, stderr=PIPE)
        with trio.fail_after(60):
            await beside.stdout.receive_some(1)
            await beside.stdout.aclose()  # as `| head -1` does
            await ask(session)
            assert (await beside.wait(), await beside.stderr.receive_some()) == (0, b"")


class Lines:
    """Line by line."""

    def __init__(self, stream):
        self._stream = stream
        self._read = b""

    async def receive(self):
        while b"\n" not in self._read:
            self._read += await self._stream.receive_some()
        line, _, self._read = self._read.partition(b"\n")
        return line
