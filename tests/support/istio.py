"""Istio's control plane and agent (tests/peers/istio), which `make peer-istio` builds.

async with istio(folder, *resources) as peer: ...  # peer.address, peer.agent_bootstrap
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml

from .go_peers import ROOT
from .peer_programs import Peer

PROGRAM = ROOT / ".peers" / "istio" / "istio"

Resource = dict[str, Any]


def program() -> Path:
    """Where it is. It takes minutes to build, so only `make peer-istio` does, and without it the tests are left out."""
    if not PROGRAM.exists():
        reason = "`make peer-istio` builds it" if shutil.which("go") else "Go is not installed"
        pytest.skip(f"Istio is not in {PROGRAM.parent}; {reason}")
    return PROGRAM


class Istio:
    """A control plane, and the agent beside it. The folder has what they read and write."""

    def __init__(self, folder: Path, peer: Peer) -> None:
        self.folder = folder
        self.address = peer.address
        self.process = peer.process

    @property
    def agent_bootstrap(self) -> str:
        """The path of the file that the agent has written."""
        return str(self.folder / "agent" / "grpc-bootstrap.json")

    @property
    def log(self) -> str:
        """What both have logged so far."""
        return (self.folder / "log").read_text("utf-8", errors="replace")

    def put(self, *resources: Resource) -> None:
        """Have these resources in force soon, and no others."""
        _write(self.folder, resources)


def _write(folder: Path, resources: Iterable[Resource]) -> None:
    # Istio reads a file whenever it changes, so it must never see half of one.
    new = folder / "new"
    new.write_text(yaml.safe_dump_all(resources), "utf-8")
    new.replace(folder / "config" / "all.yaml")


@asynccontextmanager
async def istio(folder: Path, *resources: Resource, listen: str = "", **environ: str) -> AsyncIterator[Istio]:
    """The control plane with these resources, and its agent, until the block is left. `listen` is its address."""
    for name in ("config", "agent"):
        (folder / name).mkdir(exist_ok=True)
    _write(folder, resources)
    command = [program(), "-config", folder / "config", "-agent", folder / "agent", "-listen", listen]
    with (folder / "log").open("ab") as log:
        start = partial(
            trio.run_process,
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            check=False,
            cwd=folder,  # sockets of Istio's own have relative paths
            env={**os.environ, **environ},
        )
        async with trio.open_nursery() as nursery:
            peer = Peer(await nursery.start(start))
            nursery.start_soon(_read, peer, folder)
            peer.address = (await peer.wait_for(lambda event: "listening" in event))["listening"]
            yield Istio(folder, peer)
            nursery.cancel_scope.cancel()


async def _read(peer: Peer, folder: Path) -> None:
    await peer.read()
    if not peer.events:
        raise RuntimeError("Istio ended before it listened:\n" + (folder / "log").read_text("utf-8")[-2000:])


def service_entry(service: Resource, *hosts: str, draining: Iterable[str] = (), **endpoint: str) -> Resource:
    """A ServiceEntry in place of that Service, with these addresses; every other pod has version v2.

    `endpoint` has more fields of each endpoint.
    """
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    (port,) = service["spec"]["ports"]
    endpoints = []
    for number, host in enumerate(hosts):
        address, _, at = host.rpartition(":")
        labels = {"version": f"v{number % 2 + 1}"} | ({"istio.io/draining": "true"} if host in draining else {})
        endpoints.append({"address": address, "ports": {port["name"]: int(at)}, "labels": labels, **endpoint})
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": {"name": name, "namespace": namespace, "labels": service["metadata"].get("labels", {})},
        "spec": {
            "hosts": [f"{name}.{namespace}.svc.cluster.local"],
            "location": "MESH_INTERNAL",
            "resolution": "STATIC",
            "ports": [{"number": port["port"], "name": port["name"], "protocol": "GRPC"}],
            "endpoints": endpoints,
        },
    }
