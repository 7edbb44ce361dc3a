"""What the log says at DEBUG, each decision, and what docs/logs.md shows of the log."""

import logging
import re
from pathlib import Path

import pytest
import trio
from support.logs import lines
from support.mesh import METHOD, PLANE, Mesh, ask
from support.transcript import comparable

from trxds import RpcError
from trxds.core.log_setup import LOGGERS
from trxds.testing import resources as xds

TARGET = "xds:///shop"
DOCUMENT = Path(__file__).parents[2] / "docs/logs.md"


def decisions(caplog, logger):
    return lines(caplog, logger, logging.DEBUG)


class TestDecisions:
    async def test_a_call_says_its_route_its_host_and_its_end(self, caplog, autojump_clock):
        caplog.set_level(logging.DEBUG, "trxds")
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            caplog.clear()
            await ask(channel)
        call = f"{TARGET}: call 2 of {METHOD}"
        said = [(each.name, each.getMessage()) for each in caplog.records if each.getMessage().startswith(call)]
        assert said == [
            ("trxds.client", f"{call} begins"),
            ("trxds.resolver", f"{call} is routed to cluster cart"),
            ("trxds.session_affinity", f"{call}: a policy chooses its host (no_cookie)"),
            ("trxds.lb", f"{call} goes to host {mesh.hosts[0]} of cluster cart"),
            ("trxds.client", f"{call} ended with OK"),
        ]

    async def test_a_call_of_a_session_says_why_it_goes_to_its_host(self, caplog, autojump_clock):
        caplog.set_level(logging.DEBUG, "trxds.session_affinity")
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            await ask(session)
        assert decisions(caplog, "session_affinity") == [
            f"{TARGET}: session 1 is opened",
            f"{TARGET}: call 1 of {METHOD}: a policy chooses its host (no_cookie)",
            f"{TARGET}: call 2 of {METHOD}: its session's cookie names a host that can be used",
            f"{TARGET}: session 1 is closed",
        ]

    async def test_a_call_that_waits_and_fails_says_why_and_how(self, caplog, autojump_clock):
        caplog.set_level(logging.DEBUG, "trxds")
        async with Mesh.run(1) as mesh:
            mesh.network.black_hole(mesh.hosts[0])
            async with mesh.channel() as channel:
                with pytest.raises(RpcError):
                    await ask(channel, timeout=3)
        call = f"{TARGET}: call 1 of {METHOD}"
        assert f"{call} waits: no host of cluster cart is connected" in caplog.messages
        assert f"{call} ended with DEADLINE_EXCEEDED" in caplog.messages

    async def test_each_policy_says_what_it_decides_and_from_what(self, caplog, autojump_clock):
        caplog.set_level(logging.DEBUG, "trxds.lb")
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(1)
            caplog.clear()
            mesh.servers[mesh.hosts[0]].stop()
            await trio.sleep(0.5)
        assert any(
            line.startswith(f"{TARGET}: round_robin at cluster_manager/cart/")
            and "reports READY; it sees 1 of 2 endpoints READY" in line
            for line in decisions(caplog, "lb")
        )

    async def test_the_talk_with_the_control_plane_is_logged(self, caplog, autojump_clock):
        caplog.set_level(logging.DEBUG, "trxds.xds")
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(1)
            begin = f"{TARGET}: xDS server {PLANE}"
            cluster = "envoy.config.cluster.v3.Cluster"
            assert [line for line in decisions(caplog, "xds") if cluster in line] == [
                f'{TARGET}: {cluster} "cart" is requested',
                f"{begin} is asked for {cluster}: cart",
                f"{begin} sends {cluster} version 1: 1 resource valid, 0 invalid",
                f'{TARGET}: {cluster} "cart" is acked (version 1)',
                f"{begin} gets an ACK for {cluster} version 1",
            ]
            mesh.plane.put({**xds.cluster("cart"), "lb_policy": "MAGLEV"})
            await trio.sleep(1)
            assert f"{begin} gets a NACK for {cluster} version 1" in decisions(caplog, "xds")

    async def test_without_debug_no_call_is_observed(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            assert not channel._state.observers.active
            assert channel._state.data_plane.tree._context.log_decision is None


def documented():
    """The lines that the page shows, at INFO and at DEBUG, without their times."""
    at_info, at_debug = re.findall(r"^```text\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [[line.split(" ", 2)[2] for line in block.splitlines()] for block in (at_info, at_debug)]


class TestDocument:
    async def test_the_page_shows_what_is_logged(self, caplog, autojump_clock):
        caplog.set_level(logging.DEBUG, "trxds")
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            first = await ask(session)
            (second,) = set(mesh.hosts) - {first}
            await trio.sleep(1)
            mesh.network.refuse(first)
            mesh.servers[first].goaway()
            await trio.sleep(1)
            mesh.endpoints("cart", [second])
            await trio.sleep(1)
            await ask(session)
            mesh.plane_server.drop_connections()
            await trio.sleep(3)
            at_info, at_debug = documented()

            def logged():
                text = "\n".join(f"{each.levelname} {each.name}: {each.getMessage()}" for each in caplog.records)
                names = {first: "10.0.1.1:50051", second: "10.0.1.2:50051"}
                return re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], text).splitlines()

            found = "\n".join(line for line in logged() if line.startswith("INFO"))
            # Two hosts connect in any order.
            assert sorted(comparable(found)) == sorted(comparable("\n".join(at_info)))
            caplog.clear()
            await ask(session)
            assert [line for line in logged() if f"{TARGET}: call 3 of " in line] == at_debug

    def test_the_page_has_every_logger(self):
        rows = re.findall(r"^\| `trxds\.(\w+)` \|", DOCUMENT.read_text("utf-8"), re.MULTILINE)
        assert sorted(rows) == sorted(LOGGERS)
