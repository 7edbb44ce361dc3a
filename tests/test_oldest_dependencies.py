"""With which versions `make test-oldest` runs."""

from __future__ import annotations

from pathlib import Path

import oldest_dependencies
import pytest

PROJECT = """
[project]
dependencies = ["trio>=0.31", "h2{bound}"]
[project.optional-dependencies]
otel = ["opentelemetry-api>=1.30"]
generate = ["grpcio-tools>=1.75"]
dev = ["pytest>=9.0", "opentelemetry-sdk>=1.30"]
"""


def write_project(root: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(oldest_dependencies, "ROOT", root)
    (root / "pyproject.toml").write_text(PROJECT.format(bound=bound))


def test_each_package_of_trxds_and_its_extras_has_its_lower_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path, monkeypatch, ">=4.4")
    assert [*oldest_dependencies.constraints()] == [
        "trio==0.31",
        "h2==4.4",
        "opentelemetry-api==1.30",
        "grpcio-tools==1.75",
        "opentelemetry-sdk==1.30",
    ]


def test_a_package_without_a_lower_bound_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(tmp_path, monkeypatch, "")
    with pytest.raises(ValueError, match="'h2' has no oldest version; write name>=version"):
        list(oldest_dependencies.constraints())
