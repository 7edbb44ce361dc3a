"""What protoc and we make of the protos in here, once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from trxds.generate.protoc import generate
from trxds.generate.stubs import Options

PROTOS = Path(__file__).parent / "protos"
NAMES = [str(path) for path in sorted(PROTOS.rglob("*.proto"))]


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """Absolute imports, for Trio and for threads, and servicers."""
    folder = tmp_path_factory.mktemp("plain")
    generate(NAMES, folder, [str(PROTOS)], Options(sync=True, servicers=True))
    return folder


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """A folder with the package `made`, in which imports are relative."""
    folder = tmp_path_factory.mktemp("package")
    generate(NAMES, folder / "made", [str(PROTOS)], Options(relative=True, servicers=True))
    return folder
