"""The how-to guides whose programs need more than one process, followed step by step."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from support.mesh import Mesh
from support.ports import reserved_ports
from support.programs import Programs

import trxds
from trxds.resources.context import ParseContext
from trxds.resources.protos import from_json
from trxds.resources.types import RDS
from trxds.testing import resources

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
GUIDES = ROOT / "docs" / "how-to"


def blocks(guide: str, language: str) -> list[str]:
    """Return the blocks of a language in a guide, or in another page, such as `../quick-start.md`."""
    text = (GUIDES / guide).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_guide_to_tls_leads_to_calls_over_tls(tmp_path: Path) -> None:
    certificates, lists, revocation = blocks("tls.md", "sh")

    def run(script: str) -> None:
        subprocess.run(["sh", "-e"], input=script, text=True, cwd=tmp_path, check=True, capture_output=True)

    run(certificates)
    run(lists)
    output = tmp_path / "output"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with reserved_ports(1) as (port,), Programs.run(tmp_path, environ) as programs, ExitStack() as stack:
        for program in blocks("tls.md", "python"):
            name = program.partition("\n")[0].removeprefix("# ")
            if name.endswith(".py"):
                (tmp_path / name).write_text(program.replace("50443", str(port)), "utf-8")
        stack.enter_context(programs.started(["python", "secure_host.py"], tmp_path / "host"))
        until(lambda: (tmp_path / "host").exists() and "serves" in (tmp_path / "host").read_text())
        assert programs.finish(["python", "secure_client.py"], output) == 0, output.read_text()
        assert output.read_text() == "b'added apples'\n"
        assert programs.finish(["python", "mutual_client.py"], output) == 0, output.read_text()
        assert output.read_text() == "b'added bread'\n"
        assert programs.finish(["python", "careful_client.py"], output) == 0, output.read_text()
        assert output.read_text() == "b'added pears'\n"
        run(revocation)
        assert programs.finish(["python", "careful_client.py"], output) == 1
        assert "certificate revoked by the CRLs of crls (1, until " in output.read_text()


def test_the_quick_starts_control_plane_hosts_and_session_fit_each_other(tmp_path: Path) -> None:
    (mesh,) = blocks("../quick-start.md", "yaml")
    programs_of_page = blocks("../quick-start.md", "python")
    (hosts,) = (text for text in programs_of_page if text.startswith("# hosts.py\n"))
    (session,) = (text for text in programs_of_page if "channel.session()" in text)
    output, plane = tmp_path / "output", tmp_path / "plane"
    with reserved_ports(3) as (port, *of_hosts):
        ports = dict(zip(("50051", "50052"), map(str, of_hosts), strict=True))
        for name, text in (("mesh.yaml", mesh), ("hosts.py", hosts), ("session.py", session)):
            (tmp_path / name).write_text(re.sub("|".join(ports), lambda found: ports[found[0]], text), "utf-8")
        bootstrap = json.dumps(resources.bootstrap(f"127.0.0.1:{port}"))
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "GRPC_XDS_BOOTSTRAP_CONFIG": bootstrap}
        with (
            Programs.run(tmp_path, environ) as programs,
            programs.started(["python", "hosts.py"], tmp_path / "host"),
            programs.started(["trxds", "plane", "mesh.yaml", "--port", str(port)], plane),
        ):
            until(lambda: all(file.exists() and "serv" in file.read_text() for file in (tmp_path / "host", plane)))

            def meets_both_hosts() -> bool:
                assert programs.finish(["python", "session.py"], output) == 0, output.read_text()
                told = [line.split(": ") for line in output.read_text().splitlines()]
                assert [who for who, _ in told] == ["session", "session", "channel", "channel"]
                assert told[0] == told[1]
                met = {host for who, host in told if who == "channel"}
                return met == {f"127.0.0.1:{each}" for each in ports.values()}

            until(meets_both_hosts)  # the first calls may be faster than the connection to one of them


def until(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


async def test_the_retry_policy_of_a_route_is_read_as_the_guide_says(autojump_clock) -> None:
    (text,) = blocks("retries.md", "yaml")
    table = resources.routes("r", *yaml.safe_load(text)["routes"])
    parsed = RDS.read(from_json(table), ParseContext())
    assert parsed.errors == ()
    policy = parsed.value.virtual_hosts[0].routes[0].action.retry_policy
    assert policy.max_attempts == 4 and policy.base_interval == 0.1 and policy.max_interval == 1
    assert {code.name for code in policy.codes} == {"UNAVAILABLE", "RESOURCE_EXHAUSTED"}


def test_the_mirror_policy_of_a_route_is_read_as_the_guide_says() -> None:
    (text,) = blocks("mirroring.md", "yaml")
    table = resources.routes("r", *yaml.safe_load(text)["routes"])
    parsed = RDS.read(from_json(table), ParseContext(mirroring=True))
    assert parsed.errors == ()
    (policy,) = parsed.value.virtual_hosts[0].routes[0].action.mirrors
    assert (policy.cluster, policy.per_million) == ("search-next", 50_000)


async def test_the_hedging_policy_of_the_guide_is_taken(autojump_clock) -> None:
    (text,) = blocks("retries.md", "json")
    async with (
        Mesh.run(1) as mesh,
        trxds.open_channel(f"ipv4:{mesh.hosts[0]}", service_config=text, network=mesh.network) as channel,
    ):
        await channel.method("/shop.Search/Find")(b"")
