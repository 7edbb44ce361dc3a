"""Files with resources in place of a server: what is read of them, and when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trxds.xds.resource_files import MAX_SHOWN, FilesContent, ResourceFiles

CLUSTER = "- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: {}\n"


def read(files: ResourceFiles) -> FilesContent:
    content = files.read_if_changed()
    assert content is not None
    return content


def names(content: FilesContent) -> list[str]:
    return [name for _, name in content.resources]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "mesh.yaml"
    file.write_text(CLUSTER.format("cart"))
    return file


def test_files_are_read_again_only_when_they_have_changed(file: Path) -> None:
    files = ResourceFiles(str(file))
    first = read(files)
    assert files.read_if_changed() is None
    file.write_text(CLUSTER.format("orders"))
    second = read(files)
    assert (names(first), names(second)) == (["cart"], ["orders"])
    assert first.version != second.version


def test_a_file_that_is_replaced_by_one_of_the_same_size_and_time_is_read_again(file: Path) -> None:
    files, found = ResourceFiles(str(file)), file.stat()
    read(files)
    other = file.with_name("other")
    other.write_text(CLUSTER.format("shop"))
    os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))
    other.rename(file)
    assert names(read(files)) == ["shop"]


def test_files_that_are_missing_are_an_error_at_the_second_look_and_once(file: Path) -> None:
    files = ResourceFiles(str(file))
    read(files)
    file.unlink()
    assert files.read_if_changed() is None, "it may be replaced at this moment"
    assert read(files).problems == (f"{file}: No such file or directory",)
    assert files.read_if_changed() is None


def test_files_that_come_back_as_they_were_are_read_again_and_may_be_missing_again(file: Path) -> None:
    files, away = ResourceFiles(str(file)), file.with_name("away")
    for _ in range(2):
        assert names(read(files)) == ["cart"]
        file.rename(away)
        assert files.read_if_changed() is None
        assert read(files).problems
        away.rename(file)


def test_a_directory_that_never_stands_still_is_read_another_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, reads = ResourceFiles(str(file.parent)), 0
    read_bytes = Path.read_bytes

    def read_and_replace(path: Path) -> bytes:
        nonlocal reads
        reads += 1
        content = read_bytes(path)
        path.write_text(CLUSTER.format("x" * reads))
        return content

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", read_and_replace)
        assert files.read_if_changed() is None
    assert names(read(files)) == ["x" * reads]


@pytest.mark.parametrize(("more", "rest"), [(0, ""), (1, "; and 1 more problem"), (2, "; and 2 more problems")])
def test_an_error_names_a_few_of_many_problems(more: int, rest: str) -> None:
    problems = tuple(f"problem {number}" for number in range(MAX_SHOWN + more))
    shown = "; ".join(problems[:MAX_SHOWN])
    assert FilesContent(problems=problems).error == (
        f"{shown}{rest}; correct the file, which is read again when it changes"
    )
    assert FilesContent().error == ""
