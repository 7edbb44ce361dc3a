"""The peers in Java (tests/peers/java): programs of our own with grpc-java and Envoy's java-control-plane.

`make peers` builds them, and runs the tests with them.
"""

from __future__ import annotations

import os
import shutil
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path

import pytest

from . import peer_planes, peer_programs
from .peer_planes import Plane
from .peer_programs import Peer

NAMES = ("Backend", "Client", "Plane", "XdsBackend")
FOLDER = Path(__file__).parents[2] / ".peers" / "java"
# A program that lives for seconds gains nothing by the second compiler, and several begin at once on two cores.
OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
# What is off in grpc-java 1.85: further addresses of endpoints, policies that are kept for 15 minutes, Happy Eyeballs,
# metrics of a cluster's own in weights.
AS_WE_DO = {
    "GRPC_EXPERIMENTAL_XDS_DUALSTACK_ENDPOINTS": "true",
    "GRPC_EXPERIMENTAL_ENABLE_PRIORITY_LB_CHILD_POLICY_CACHE": "true",
    "GRPC_EXPERIMENTAL_ENABLE_NEW_PICK_FIRST": "true",
    "GRPC_PF_USE_HAPPY_EYEBALLS": "true",
    "GRPC_EXPERIMENTAL_WRR_CUSTOM_METRICS": "true",
}


def command(name: str, *flags: str) -> list[str]:
    """What runs that class. Without Java the test is left out; without the class too, but in CI it fails."""
    if not (FOLDER / "classes" / "trxds" / "peers" / f"{name}.class").exists():
        if shutil.which("javac") is None or shutil.which("mvn") is None:
            pytest.skip("Java or Maven is not installed")
        missing = f"{name} is not in {FOLDER}; `make peers` builds it"
        pytest.fail(missing) if "CI" in os.environ else pytest.skip(missing)
    paths = f"{FOLDER / 'classes'}:{FOLDER / 'lib'}/*"
    return ["java", *OPTIONS, "-cp", paths, f"trxds.peers.{name}", *flags]


def running(name: str, *flags: str) -> AbstractAsyncContextManager[Peer]:
    """The program, from when it listens until the block is left."""
    return peer_programs.running(command(name, *flags))


def serving(name: str, *flags: str) -> AbstractContextManager[str]:
    """The address of the program, which the tests of a module share."""
    return peer_programs.serving(command(name, *flags))


def plane(*flags: str) -> AbstractAsyncContextManager[Plane]:
    """Envoy's java-control-plane, with the flags of tests/peers/java/trxds/peers/Plane.java."""
    return peer_planes.plane(running("Plane", *flags))
