"""The fuzz targets themselves: good input, what fuzzing has found, and bytes of hypothesis' choice, without atheris."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.targets import TARGETS
from hypothesis import given, settings
from hypothesis import strategies as st

FOUND = Path(__file__).parent / "found"


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_withstands_its_seeds_with_a_byte_changed_anywhere(name: str) -> None:
    target = TARGETS[name]
    for seed in target.seeds:
        target.run(seed)
        for place in range(min(len(seed), 200)):
            target.run(seed[:place] + bytes([seed[place] ^ 0x41]) + seed[place + 1 :])
            target.run(seed[:place])


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
