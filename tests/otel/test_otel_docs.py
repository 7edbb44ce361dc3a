"""The table of docs/reference/metrics.md is that of the instruments."""

import re
from pathlib import Path

from trxds.otel import INSTRUMENTS
from trxds.otel.meters import enabled_instruments

DOCS = Path(__file__).parent.parent.parent / "docs"
DOCUMENT = DOCS / "telemetry.md"
TABLE = DOCS / "reference" / "metrics.md"


def row(instrument):
    labels = [*(f"`{label}`" for label in instrument.labels), *(f"*`{label}`*" for label in instrument.optional)]
    of = f"{instrument.kind}, `{instrument.unit}`"
    on = "on" if instrument.is_enabled_by_default else "off"
    return (
        f"| `{instrument.name}` | {of} | {', '.join(labels)} | {instrument.source} | {on} | {instrument.description} |"
    )


def test_every_instrument_has_its_row_and_no_other_one_has():
    rows = [
        line for line in TABLE.read_text("utf-8").splitlines() if line.startswith(("| `grpc.", "| `trxds.", "| `rpc."))
    ]
    assert rows == [row(instrument) for instrument in INSTRUMENTS]


def test_the_recipe_for_prometheus_has_all_that_its_questions_ask_for():
    recipe, _, questions = DOCUMENT.read_text("utf-8").partition("## Prometheus")[2].partition("| question | query |")
    enabled = enabled_instruments(re.findall(r'"([^"]+)"', recipe.partition("enable=[")[2].partition("]")[0]), ())
    served = {instrument.name.replace(".", "_") for instrument in enabled}
    asked = re.findall(r"\b(?:grpc|trxds)_\w+(?=[\[{)])", questions.partition("\n## ")[0])
    names = {re.sub(r"(_seconds)?_(bucket|count|total)$", "", each) for each in asked} - LABELS
    assert len(names) >= 4
    assert names <= served


LABELS = {label.replace(".", "_") for instrument in INSTRUMENTS for label in instrument.labels}
