"""docs/features.md says what is built and what is not; the map of rules and gRPC's proposals hold it to that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FEATURES = (ROOT / "docs/features.md").read_text("utf-8")
MAP = (ROOT / "docs/grfc-map.md").read_text("utf-8")
GRFC = re.compile(r"\bA\d+\b")

# The numbers of the proposals for all languages in grpc/proposal, as of 2026-06-25. A new one goes here and into
# docs/features.md.
# fmt: off
NUMBERS = (
    1, 2, 3, 5, 6, 8, 9, 10, 14, 15, 16, 17, 18, 21, 24, 26, 27, 28, 29, 30, 31, 32, 33, 36, 37, 38, 39, 40, 41, 42,
    43, 44, 45, 46, 47, 48, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 68, 69, 71, 72, 74,
    75, 76, 78, 79, 80, 81, 82, 83, 85, 86, 87, 88, 89, 90, 91, 94, 95, 96, 97, 101, 103, 105, 107, 108, 113, 114,
    115, 118,
)
# fmt: on
PROPOSALS = {f"A{number}" for number in NUMBERS}
DRAFTS = {"A92", "A93", "A100", "A117"}  # Not merged there at that date.

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
    assert PROPOSALS - built("yes", "variable") - grfcs(REASONS) == set()


def test_no_grfc_is_named_that_is_no_proposal() -> None:
    assert grfcs(FEATURES) - PROPOSALS == DRAFTS


def test_what_is_built_has_no_reason_for_not_being_built_but_for_another_half() -> None:
    lines = [line for line in REASONS.splitlines() if "the other half" not in line]
    assert built("yes", "variable") & grfcs("\n".join(lines)) == set()


def test_what_a_variable_switches_on_is_marked_so() -> None:
    assert built("variable") == set(VARIABLES)


@pytest.mark.parametrize("variable", VARIABLES.values())
def test_a_variable_that_switches_a_feature_on_is_read_and_documented(variable: str) -> None:
    sources = [path.read_text("utf-8") for path in (ROOT / "trxds").rglob("*.py")]
    documents = [path for path in (ROOT / "docs").rglob("*.md") if path.name not in ("grfc-map.md", "features.md")]
    assert any(f'"{variable}"' in source for source in sources)
    assert any(variable in document.read_text("utf-8") for document in documents)
