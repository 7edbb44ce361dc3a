"""The plugin for pytest, in projects as its users have them: each test here runs pytest in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import trxds

pytestmark = pytest.mark.slow

ROOT = Path(trxds.__file__).parent.parent
TRIO_MODE = '[tool.pytest.ini_options]\naddopts = "--strict-markers"\ntrio_mode = true\n'
NO_MODE = '[tool.pytest.ini_options]\naddopts = "--strict-markers"\n'
PLUGIN = 'pytest_plugins = ["trxds.testing.pytest"]\n'

# The lines that a test needs to be run by one plugin or the other take the place of MARK.
CARTS = """
import pytest
import trio

import trxds
from trxds.testing import resources, serve, unary


async def slow(request, call):
    await trio.sleep(20)
    return b"added " + request


async def add(network, plane, bootstrap):
    plane.put(
        resources.listener("shop", routes="r"),
        resources.routes("r", resources.route("cart")),
        resources.cluster("cart"),
        resources.endpoints("cart", resources.locality("10.0.0.2:50051")),
    )
    async with (
        serve({"/shop.Cart/Add": unary(slow)}, address="10.0.0.2:50051", network=network),
        trxds.open_channel("xds:///shop", bootstrap=bootstrap, network=network) as channel,
    ):
        assert await channel.method("/shop.Cart/Add")(b"apples", timeout=30) == b"added apples"
        assert 20 <= trio.current_time() < 21


MARK
async def test_first(trxds_clock, trxds_network, trxds_plane, trxds_bootstrap):
    assert repr(trxds_plane) == "<ManagementServer 0 LDS, 0 RDS, 0 CDS, 0 EDS, 0 streams>"
    await add(trxds_network, trxds_plane, trxds_bootstrap)


MARK
async def test_second(trxds_bootstrap, trxds_plane, trxds_network, trxds_clock):
    assert repr(trxds_plane) == "<ManagementServer 0 LDS, 0 RDS, 0 CDS, 0 EDS, 0 streams>"
    await add(trxds_network, trxds_plane, trxds_bootstrap)
"""

ANYIO_BACKEND = """
@pytest.fixture
def anyio_backend(trxds_clock):
    return "trio", {"clock": trxds_clock}
"""


def run_pytest(folder: Path, files: Mapping[str, str], *options: str) -> tuple[int, str]:
    """Write a project and run its tests; return the exit code and the output."""
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *options],
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout


def marked(mark: str) -> str:
    return CARTS.replace("MARK\n", f"{mark}\n" if mark else "")


def test_the_fixtures_work_with_the_configuration_of_the_documents(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "testing.md").read_text("utf-8")
    (configuration,) = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    files = {"pyproject.toml": configuration, "conftest.py": PLUGIN, "test_carts.py": marked("")}
    code, output = run_pytest(tmp_path, files)
    assert (code, "2 passed" in output) == (0, True), output


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("-p", "no:anyio")], ids=["anyio", "no-anyio"])
def test_the_fixtures_work_without_trio_mode(options: tuple[str, ...], tmp_path: Path) -> None:
    files = {"pyproject.toml": NO_MODE, "conftest.py": PLUGIN, "test_carts.py": marked("@pytest.mark.trio")}
    code, output = run_pytest(tmp_path, files, *options)
    assert (code, "2 passed" in output) == (0, True), output


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("-p", "no:trio")], ids=["pytest-trio", "no-pytest-trio"])
def test_the_fixtures_work_with_the_plugin_of_anyio(options: tuple[str, ...], tmp_path: Path) -> None:
    files = {"pyproject.toml": NO_MODE, "test_carts.py": PLUGIN + marked("@pytest.mark.anyio") + ANYIO_BACKEND}
    code, output = run_pytest(tmp_path, files, *options)
    assert (code, "2 passed" in output) == (0, True), output


def test_the_clock_and_the_network_work_without_any_plugin(tmp_path: Path) -> None:
    test = """
import trio

def test_by_hand(trxds_clock, trxds_network):
    trio.run(trio.sleep, 1000, clock=trxds_clock)
    assert trxds_network.names == {}
"""
    options = ("-p", "no:trio", "-p", "no:anyio", "-p", "trxds.testing.pytest")
    code, output = run_pytest(tmp_path, {"test_by_hand.py": test}, *options)
    assert (code, "1 passed" in output) == (0, True), output


@pytest.mark.long
@pytest.mark.parametrize(
    "test, options",
    [
        (marked(""), ()),
        (marked(""), ("-p", "no:trio", "-p", "no:anyio")),
        ("def test_first(trxds_plane): pass\ndef test_second(trxds_bootstrap): pass\n", ("-o", "trio_mode=true")),
    ],
    ids=["no-mode", "no-plugin", "not-async"],
)
def test_a_test_that_nothing_runs_as_async_says_what_to_do(test: str, options: tuple[str, ...], tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, {"pyproject.toml": NO_MODE, "test_carts.py": PLUGIN + test}, *options)
    assert code == 1 and "2 errors" in output, output
    assert output.count("set trio_mode = true in pytest's configuration, or mark the test with @pytest.mark.trio") >= 2


def test_a_control_plane_in_a_test_on_asyncio_says_what_to_do(tmp_path: Path) -> None:
    test = f"""{PLUGIN}
import pytest

@pytest.mark.anyio
async def test_carts(trxds_plane):
    raise AssertionError
"""
    code, output = run_pytest(tmp_path, {"pyproject.toml": NO_MODE, "test_carts.py": test}, "-k", "asyncio")
    assert (code, "1 error" in output) == (1, True), output
    assert "trxds_plane runs on Trio, and this task runs on asyncio; define the fixture anyio_backend, which" in output


def test_a_wrong_reply_fails_the_test_although_its_client_had_a_fallback(tmp_path: Path) -> None:
    test = """
import trxds
from trxds.testing import serve, unary

async def wrong(request, call):
    return 3

async def stock(channel):
    try:
        return await channel.method("/shop.Cart/Stock")(b"")
    except trxds.RpcError:
        return b"none"

async def test_stock(trxds_network):
    async with (
        serve({"/shop.Cart/Stock": unary(wrong)}, address="10.0.0.2:50051", network=trxds_network),
        trxds.open_channel("ipv4:10.0.0.2:50051", network=trxds_network) as channel,
    ):
        assert await stock(channel) == b"none"
"""
    code, output = run_pytest(tmp_path, {"pyproject.toml": TRIO_MODE, "conftest.py": PLUGIN, "test_stock.py": test})
    assert code == 1 and "1 failed" in output
    assert "the handler of /shop.Cart/Stock replied with int, not bytes" in output


REFUSED = """
import pytest
import trio

import trxds
from trxds.testing import resources


MARK
async def test_refused(trxds_clock, trxds_network, trxds_plane, trxds_bootstrap):
    cluster = resources.cluster("cart") | {"lb_policy": "MAGLEV"}
    trxds_plane.put(
        resources.listener("shop", routes="r"),
        resources.routes("r", resources.route("cart")),
        cluster,
    )
    async with trxds.open_channel("xds:///shop", bootstrap=trxds_bootstrap, network=trxds_network):
        with trio.fail_after(1):
            await trxds_plane.wait_for_ack("CDS")


MARK
async def test_idle(trxds_plane):
    raise AssertionError


MARK
async def test_passed(trxds_plane):
    pass
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "mark, more", [("@pytest.mark.trio", ""), ("@pytest.mark.anyio", ANYIO_BACKEND)], ids=["trio", "anyio"]
)
def test_the_report_of_a_failed_test_has_the_requests_to_the_control_plane(
    mark: str, more: str, tmp_path: Path
) -> None:
    test = PLUGIN + REFUSED.replace("MARK", mark) + more
    code, output = run_pytest(tmp_path, {"pyproject.toml": NO_MODE, "test_refused.py": test})
    assert code == 1 and "2 failed, 1 passed" in output, output
    refused, idle = output.split("- Requests to trxds_plane -")[1:]
    documented = (ROOT / "docs" / "testing.md").read_text("utf-8")
    (shown,) = re.findall(r"- Requests to trxds_plane -+\n((?: {4}.*\n)+)", documented)
    assert shown in refused
    assert "    0.000 s  SUBSCRIBE LDS shop\n" in refused
    assert re.search(r"0\.\d{3} s  NACK CDS cart: .*lb_policy", refused)
    assert idle.strip("-\n").startswith("none\n")


def test_the_plugin_is_not_loaded_unless_it_is_named(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, {"pyproject.toml": TRIO_MODE, "test_carts.py": marked("")})
    assert code == 1 and "fixture 'trxds_clock' not found" in output
    assert [each for each in entry_points(group="pytest11") if each.value.startswith("trxds")] == []


def test_the_other_parts_of_the_test_kit_do_not_import_pytest() -> None:
    program = "import sys, trxds.testing; print([name for name in sys.modules if name.partition('.')[0] == 'pytest'])"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=True
    )
    assert done.stdout == b"[]\n"
