"""The fuzz targets themselves: good input, what fuzzing has found, and bytes of hypothesis' choice, without atheris."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from fuzz.targets import TARGETS
from hypothesis import given, settings
from hypothesis import strategies as st

import trxds

pytestmark = pytest.mark.slow

PACKAGE = Path(trxds.__file__).parent

PARSERS = (
    "resources/*.py",
    *(
        f"transport/{name}.py"
        for name in (
            "frames",
            "fast_http2",
            "frame_handler",
            "h2_engine",
            "header_blocks",
            "framing",
            "compression",
            "response",
        )
    ),
    *(
        f"xds/{name}.py"
        for name in (
            "bootstrap",
            "resource_names",
            "discovery_response",
            "sotw",
            "delta",
            "authorization",
            "cache_file",
        )
    ),
    *(f"resolver/{name}.py" for name in ("service_config", "method_config", "target_uri")),
    "lb/balancing_config.py",
    *(f"session_affinity/{name}.py" for name in ("cookie", "cookie_jar", "session_state", "session_token")),
    *(f"client/{name}.py" for name in ("fault_injection_filter", "retry")),
    *(f"core/{name}.py" for name in ("metadata", "json_parse")),
    *(f"admin/{name}.py" for name in ("http", "explain_request", "access")),
    *(f"admin/page/{name}.py" for name in ("explain_request", "viewer")),
    *(
        f"cli/{name}.py"
        for name in (
            "check",
            "json_lines",
            "bootstrap_lint",
            "running/program",
        )
    ),
    *(f"transport/{name}.py" for name in ("certificates", "crls", "der", "spiffe_bundles")),
    "generate/comments.py",
)
"""Files that read what others write; a function there that is called like a reader is one."""

READERS = ("parse", "decode", "decompress", "read", "unpack", "from_", "pushback")

FOUND = Path(__file__).parent / "found"


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_withstands_its_seeds_with_a_byte_changed_anywhere(name: str) -> None:
    target = TARGETS[name]
    for seed in target.seeds:
        target.run(seed)
        for place in range(min(len(seed), 200)):
            target.run(seed[:place] + bytes([seed[place] ^ 0x41]) + seed[place + 1 :])
            target.run(seed[:place])


@pytest.mark.parametrize("pattern", PARSERS)
def test_each_pattern_of_parsers_names_a_file(pattern: str) -> None:
    assert list(PACKAGE.glob(pattern))


def test_the_seeds_of_a_target_reach_every_parser() -> None:
    reached = reached_by_seeds()
    assert [each for each in readers() if each not in reached] == []


NOT_FROM_OUTSIDE = {
    "transport/compression.py:parse_encoding": "reads the program's own `compression=`",
    "resources/protos.py:from_json": "the field's JSON form, of tests and of `trxds plane`",
    "resources/types.py:read": "at once, what the target `discovery` reads in slices",
    "resources/experiments.py:read_experiments": "the environment variables, as `SharedXdsClient` does",
    "xds/bootstrap.py:read": "opens the file, and parses it by `parse`",
    "lb/balancing_config.py:_from_struct": "makes the readers, once",
}


def readers() -> Iterator[str]:
    for pattern in PARSERS:
        for file in sorted(PACKAGE.glob(pattern)):
            where = file.relative_to(PACKAGE).as_posix()
            defined = (
                node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)
            )
            names = {node.name for node in defined if node.name.lstrip("_").startswith(READERS)}
            yield from (f"{where}:{name}" for name in sorted(names) if f"{where}:{name}" not in NOT_FROM_OUTSIDE)


def reached_by_seeds() -> set[str]:
    """The functions of ours that all seeds of all targets have called."""
    reached: set[str] = set()
    inside = len(f"{PACKAGE}/")

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            reached.add(f"{frame.f_code.co_filename[inside:]}:{frame.f_code.co_name}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for target in TARGETS.values():
            for seed in target.seeds:
                target.run(seed)
    finally:
        sys.setprofile(before)
    return reached


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_withstands_any_bytes(name: str) -> None:
    @settings(deadline=None, max_examples=30)
    @given(st.binary(max_size=200))
    def withstands(data: bytes) -> None:
        TARGETS[name].run(data)

    withstands()


@pytest.mark.parametrize("path", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_fuzzing_found_is_mended(path: Path) -> None:
    TARGETS[path.parent.name].run(path.read_bytes())
