"""The table of docs/telemetry.md is that of the instruments."""

from pathlib import Path

from trxds.otel import INSTRUMENTS

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "telemetry.md"


def row(instrument):
    labels = [*(f"`{label}`" for label in instrument.labels), *(f"*`{label}`*" for label in instrument.optional)]
    of = f"{instrument.kind}, `{instrument.unit}`"
    on = "on" if instrument.on else "off"
    return (
        f"| `{instrument.name}` | {of} | {', '.join(labels)} | {instrument.source} | {on} | {instrument.description} |"
    )


def test_every_instrument_has_its_row_and_no_other_one_has():
    rows = [
        line
        for line in DOCUMENT.read_text("utf-8").splitlines()
        if line.startswith(("| `grpc.", "| `trxds.", "| `rpc."))
    ]
    assert rows == [row(instrument) for instrument in INSTRUMENTS]
