"""The clients of other libraries that documents compare with ours run as well, so that what is compared is so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from test_docs import ROOT, documented_world

PLUGINS = {"grpc.aio": "--grpc_python_out=.", "grpclib": "--grpclib_python_out=."}
IMPORTS = {
    "grpc.aio": "import asyncio\nimport grpc\nimport greeter_pb2\nimport greeter_pb2_grpc\n",
    "grpclib": (
        "import asyncio\nfrom grpclib.client import Channel\nfrom grpclib.const import Status\n"
        "from grpclib.exceptions import GRPCError\n"
        "from greeter_pb2 import HelloRequest\nfrom greeter_grpc import GreeterStub\n"
    ),
}


def documented(library: str) -> str:
    """Its program, and the service that it calls."""
    text = (ROOT / "docs" / f"from-{library.replace('.', '-')}.md").read_text("utf-8")
    client = rf"^A client of `?{re.escape(library)}`?:\n\n<!-- .* -->\n\n```python\n(.*?)^```"
    (program,) = re.findall(client, text, re.MULTILINE | re.DOTALL)
    return IMPORTS[library] + str(program)


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stubs")
    text = (ROOT / "docs" / "generate.md").read_text("utf-8")
    (proto,) = re.findall(r"^```proto\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (folder / "greeter.proto").write_text(proto, "utf-8")
    beside = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # where grpclib's plugin is
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--python_out=."]
    subprocess.run(
        [*protoc, *PLUGINS.values(), "greeter.proto"], cwd=folder, check=True, env={**os.environ, "PATH": beside}
    )
    return folder


@pytest.mark.parametrize("library", PLUGINS)
async def test_the_client_that_is_compared_with_ours_runs(library: str, stubs: Path) -> None:
    async with documented_world() as environ:
        host, _, port = environ["GREETER"].removeprefix("dns:///").partition(":")
        program = documented(library).replace('"greeter.internal", 50051', f'"{host}", {port}')
        with trio.fail_after(60):
            done = await trio.run_process(
                [sys.executable, "-c", program],
                env={**environ, "PYTHONPATH": str(stubs)},
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
    assert (done.returncode, done.stdout.decode()) == (0, "anna\n"), done.stderr.decode()
