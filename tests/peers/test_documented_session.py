"""README's example, with README's filter and two real grpcio hosts."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import trio
import yaml
from support.grpcio import grpcio_server

from trxds.testing import ManagementServer, resources

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def block(language: str) -> str:
    """Return README's only block in that language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return str(text)


async def test_the_session_of_readmes_example_stays_on_one_of_two_grpcio_hosts() -> None:
    plane = ManagementServer()
    async with grpcio_server() as first, grpcio_server() as second, plane.serve() as address:
        plane.put(
            resources.listener("greeter", routes="r", filters=yaml.safe_load(block("yaml"))),
            resources.routes("r", resources.route("c")),
            resources.cluster("c"),
            resources.endpoints("c", resources.locality(first, second)),
        )
        environ = {**os.environ, "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(resources.bootstrap(address))}
        program = block("python").replace('(b"apples", b"bread")', "10 * (b'apples', b'bread')")
        with trio.fail_after(30):
            done = await trio.run_process([sys.executable, "-c", program], env=environ, capture_stdout=True)
    greeting, *peers = done.stdout.decode().splitlines()
    assert greeting == "b'you'"
    assert (len(peers), len(set(peers))) == (20, 1)
    assert peers[0] in (first, second)
