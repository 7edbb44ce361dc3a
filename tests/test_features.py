"""docs/features.md says what is built and what is not; the map of rules and gRPC's list of proposals hold it to that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FEATURES = (ROOT / "docs/features.md").read_text("utf-8")
MAP = (ROOT / "docs/grfc-map.md").read_text("utf-8")
GRFC = re.compile(r"\bA\d+\b")

# The proposals of grpc/proposal for all languages (A…), as of 2026-06-25. A new one goes here and into docs/features.md.
PROPOSALS = """
    A1 A2 A3 A5 A6 A8 A9 A10 A14 A15 A16 A17 A18 A21 A24 A26 A27 A28 A29 A30 A31 A32 A33 A36 A37 A38 A39 A40 A41 A42 A43
    A44 A45 A46 A47 A48 A50 A51 A52 A53 A54 A55 A56 A57 A58 A59 A60 A61 A62 A63 A64 A65 A66 A68 A69 A71 A72 A74 A75 A76
    A78 A79 A80 A81 A82 A83 A85 A86 A87 A88 A89 A90 A91 A94 A95 A96 A97 A101 A103 A105 A107 A108 A113 A114 A115 A118
""".split()
DRAFTS = {"A92", "A93", "A100"}  # Not merged there at that date.

VARIABLES = {
    "A86": "GRPC_EXPERIMENTAL_XDS_HTTP_CONNECT",
    "A88": "GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING",
    "A100": "TRXDS_EXPERIMENTAL_SLOW_START",
}

BUILT, _, _LATER = FEATURES.partition("## Not built\n")
REASONS, _, _ = _LATER.partition("## What you can rely on")
KEPT, _, _ = MAP.partition("## Not built yet")


def grfcs(text: str) -> set[str]:
    return set(GRFC.findall(text))


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|\n").split("|")]


def tables() -> Iterator[list[list[str]]]:
    """The rows of each table, the head first and the line below it left out."""
    for table in re.findall(r"(?:^\|.*\n)+", FEATURES, re.MULTILINE):
        head, _, *rows = table.splitlines()
        yield [cells(head), *map(cells, rows)]


def rows() -> list[list[str]]:
    """Those of the tables with a column of gRFCs and one of trxds."""
    return [row for head, *rows in tables() if head[:3] == ["feature", "gRFC", "trxds"] for row in rows]


def built(*states: str) -> set[str]:
    return {grfc for row in rows() if row[2] in states for grfc in grfcs(row[1])}


def test_each_row_has_as_many_cells_as_its_head() -> None:
    assert [row for head, *rows in tables() for row in rows if len(row) != len(head)] == []


def test_each_row_says_whether_trxds_has_the_feature() -> None:
    assert len(rows()) > 60 and {row[2] for row in rows()} == {"yes", "variable"}


def test_a_feature_that_is_said_to_be_there_is_in_the_map_of_rules() -> None:
    assert built("yes", "variable") - grfcs(KEPT) == set()


def test_a_grfc_with_rules_in_the_map_is_in_a_row() -> None:
    headings = " ".join(re.findall(r"^##+ .*", KEPT, re.MULTILINE))
    assert grfcs(headings) - built("yes", "variable") == set()


def test_a_grfc_that_a_rule_of_the_map_names_has_a_place_on_the_page() -> None:
    rules = " ".join(re.findall(r"^\|.*", KEPT, re.MULTILINE))
    assert grfcs(rules) - built("yes", "variable") - grfcs(REASONS) == set()


def test_each_proposal_is_in_a_row_or_has_a_reason_for_not_being_built() -> None:
    assert set(PROPOSALS) - built("yes", "variable") - grfcs(REASONS) == set()


def test_no_grfc_is_named_that_is_no_proposal() -> None:
    assert grfcs(FEATURES) - set(PROPOSALS) == DRAFTS


def test_what_is_built_has_no_reason_for_not_being_built_but_for_another_half() -> None:
    lines = [line for line in REASONS.splitlines() if "the other half" not in line]
    assert built("yes", "variable") & grfcs("\n".join(lines)) == set()


def test_what_a_variable_switches_on_is_marked_so() -> None:
    assert built("variable") == set(VARIABLES)


@pytest.mark.parametrize("variable", VARIABLES.values())
def test_a_variable_that_switches_a_feature_on_is_read_and_documented(variable: str) -> None:
    assert any(f'"{variable}"' in path.read_text("utf-8") for path in (ROOT / "trxds").rglob("*.py"))
    assert any(
        variable in path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md") if path.name != "grfc-map.md"
    )
