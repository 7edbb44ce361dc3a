"""What the documents show runs, and what they name is there."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from support.programs import Programs

import trxds
from trxds.generate.protoc import generate
from trxds.generate.stubs import Options
from trxds.testing import Call, ManagementServer, resources, serve

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVICE = "cart.shop.svc.cluster.local"  # of the guides for Kubernetes
LEFT_OUT = re.compile(
    r"^<!-- (?:not run: [^\n]+|run by tests/[\w/.]+) -->\n\n```\w+\n.*?^```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\]\(([^)#:]+)\)")
PATH = re.compile(r"`((?:trxds|tests|examples|docs)/[\w./]+\.\w+)(?:::\w+)?`")
RUN_BY = re.compile(r"^<!-- run by (tests/[\w/.]+) -->$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w./]+\.py)::([\w:]+)`")
DEFINED = re.compile(r"^ *(?:async def|def|class) (\w+)", re.MULTILINE)


def name_of(document: Path) -> str:
    """Its path from docs/."""
    return str(document.relative_to(ROOT / "docs")) if document.is_relative_to(ROOT / "docs") else document.name


def blocks() -> list[pytest.param]:
    """Every Python block, under the name of its document and its number among all that document's blocks.

    The files of the tutorial are run by tests/test_tutorial.py, with the servers that they need.
    """
    return [
        pytest.param(text, id=f"{name_of(document)}-{number}")
        for document in DOCUMENTS
        if document.parent.name != "tutorial"
        for number, (language, text) in enumerate(BLOCK.findall(LEFT_OUT.sub("", document.read_text("utf-8"))), 1)
        if language == "python"
    ]


PROGRAMS = [block for block in blocks() if "def test_" not in block.values[0]]
TESTS = [block for block in blocks() if "def test_" in block.values[0]]


async def echo(call: Call) -> None:
    async for message in call:
        await call.send(message)


@asynccontextmanager
async def documented_world() -> AsyncIterator[dict[str, str]]:
    """The services that the documents call, and the environment in which a client finds them."""
    plane = ManagementServer()
    async with serve(fallback=echo) as first, serve(fallback=echo) as second, plane.serve() as address:
        plane.put(
            resources.listener("greeter", routes="r"),
            resources.listener("shop", routes="r", filters=[resources.stateful_session()]),
            resources.listener(f"{SERVICE}:50051", routes="r", filters=[resources.stateful_session()]),
            resources.routes("r", resources.route("c")),
            resources.cluster("c"),
            resources.endpoints("c", resources.locality(first.address, second.address)),
        )
        bootstrap = json.dumps(resources.bootstrap(address))
        yield {
            **os.environ,
            "GRPC_XDS_BOOTSTRAP_CONFIG": bootstrap,
            "GREETER": f"dns:///{first.address}",
            "CART": f"dns:///{first.address}",
            "METRICS_PORT": "0",
        }


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `trxds generate` makes of the .proto files that documents show; the first line has the name."""
    folder = tmp_path_factory.mktemp("generated")
    for document in DOCUMENTS:
        for language, text in BLOCK.findall(document.read_text("utf-8")):
            if language == "proto":
                name = text.partition("\n")[0].removeprefix("// ")
                (folder / name).write_text(text, "utf-8")
                generate([name], folder, [str(folder)], Options(sync=True, servicers=True))
    return folder


@pytest.fixture(scope="session")
def programs(generated: Path) -> Iterator[Programs]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(generated)))}
    with Programs.run(generated, environ, "-W", "error") as programs:
        yield programs


async def test_the_calls_of_readmes_session_meet_one_host() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    (program,) = (block for language, block in BLOCK.findall(text) if language == "python")
    done = await trio.run_process([sys.executable, "-W", "error", "-c", program], capture_stdout=True, cwd=ROOT)
    hosts = [line.rpartition(" ")[2] for line in done.stdout.decode().splitlines()]
    assert (len(hosts), len(set(hosts))) == (3, 1)


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_program_of_the_documents_runs(program: str, programs: Programs, tmp_path: Path) -> None:
    file, output, errors = (tmp_path / name for name in ("program.py", "output", "errors"))
    # A reader has to know the port of the admin surface; here another test may have taken it.
    file.write_text(program.replace("127.0.0.1:9901", "127.0.0.1:0"), "utf-8")
    async with documented_world() as environ:
        done = await trio.to_thread.run_sync(programs.finish, ["python", str(file)], output, errors, environ)
    assert (done, errors.read_text("utf-8")) == (0, "")


async def test_the_recipe_for_prometheus_serves_grpcs_metrics() -> None:
    recipe = next(program.values[0] for program in PROGRAMS if "start_http_server" in program.values[0])
    look = "import urllib.request\n"
    look += 'print(urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics").read().decode())'
    async with documented_world() as environ:
        program = [sys.executable, "-W", "error", "-c", f"{recipe}\n{look}"]
        done = await trio.run_process(program, env={**environ, "PYTHONPATH": str(ROOT)}, capture_stdout=True)
    page = done.stdout.decode()
    labels = '{grpc_method="other",grpc_status="OK",grpc_target="xds:///greeter"'
    assert f"grpc_client_call_duration_seconds_count{labels}" in page
    assert f"grpc_client_call_duration_seconds_bucket{labels[:20]}" in page
    assert "grpc_client_attempt_started_total{" in page
    assert "grpc_xds_client_resource_updates_valid_total{" in page
    assert "grpc_subchannel_disconnections_total{" in page


@pytest.fixture(scope="session")
def outcomes_of_tests(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What pytest prints of each file of tests, by the text of the file: nothing if its tests pass."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(generated)))}
    outcomes = {}
    for mode in ("false", "true"):  # two plugins cannot run the same test
        folder = tmp_path_factory.mktemp("documented")
        texts = [block.values[0] for block in TESTS if ("@pytest.mark.anyio" in block.values[0]) is (mode == "false")]
        files = {folder / f"test_documented_{number}.py": text for number, text in enumerate(texts)}
        for file, text in files.items():
            file.write_text(text, "utf-8")
        options = [
            "-q",
            "-rA",
            "--continue-on-collection-errors",
            "-W",
            "error",
            "-o",
            f"trio_mode={mode}",
            "--rootdir",
            folder,
            folder,
        ]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options],
            check=False,
            env=environ,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        for file, text in files.items():
            passed = f"PASSED {file.name}::" in done.stdout
            failed = re.search(rf"^(?:FAILED|ERROR) {file.name}\b", done.stdout, re.MULTILINE)
            outcomes[text] = "" if passed and not failed else done.stdout + done.stderr
    return outcomes


@pytest.mark.parametrize("test", TESTS)
def test_a_test_of_the_documents_passes(test: str, outcomes_of_tests: dict[str, str]) -> None:
    assert outcomes_of_tests[test] == ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_what_a_document_names_is_there(document: Path) -> None:
    text = document.read_text("utf-8")
    named = {document.parent / link for link in LINK.findall(text)}
    named |= {ROOT / path for path in (*PATH.findall(text), *RUN_BY.findall(text))}
    assert sorted(str(path) for path in named if not path.exists()) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_a_test_that_a_document_names_is_there(document: Path) -> None:
    named = [(path, name) for path, names in TEST.findall(document.read_text("utf-8")) for name in names.split("::")]
    there = {path: DEFINED.findall((ROOT / path).read_text("utf-8")) for path, _ in named}
    assert [name for path, name in named if name not in there[path]] == []


def test_the_newest_dated_section_of_the_changelog_is_of_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    number, day = re.findall(r"^## \[([\d.]+)\] - (\d{4}-\d\d-\d\d)$", text, re.MULTILINE)[0]
    assert number == trxds.__version__
    assert datetime.date.fromisoformat(day)


def test_nothing_is_cited_that_lies_elsewhere() -> None:
    elsewhere = re.compile(r"\b(?:DESIGN|SPEC|OBSERVED)(?:\.md| §| \d)|\.\./shared")
    folders = [ROOT / name for name in ("trxds", "tests", "docs", "examples")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md", ".proto")]
    citing = [path for path in files if elsewhere.search(path.read_text("utf-8"))]
    assert [str(path.relative_to(ROOT)) for path in citing if path.name != Path(__file__).name] == []
