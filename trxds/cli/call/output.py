"""What `trxds call` prints: replies to stdout, everything else to stderr, so that a pipe has the replies alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click
from msgspec import Struct

from trxds import Explanation, Metadata, RpcError
from trxds.core.metadata import as_text

from .json_replies import as_json
from .printable import printable

# The details of an error: they are shown decoded.
_DETAILS_KEY = "grpc-status-details-bin"


class Output(Struct, frozen=True):
    """`is_compact`: one line for each reply and failure, for programs. `is_verbose`: also what goes beside replies."""

    is_compact: bool = False
    is_verbose: bool = False

    def reply(self, data: Any) -> None:
        """Print a reply, as soon as it has come."""
        click.echo(as_json(data, None if self.is_compact else 2))

    def listing(self, lines: list[str]) -> None:
        """Print names, or the lines of a description."""
        if self.is_compact:
            click.echo(as_json(lines, None))
        elif lines:
            click.echo(printable("\n".join(lines)))

    def note(self, text: str) -> None:
        """Print a line beside the replies."""
        click.echo(printable(text), err=True)

    def beside(self, text: str) -> None:
        """Print a line if more than replies is wanted."""
        if self.is_verbose:
            self.note(text)

    def metadata(self, title: str, metadata: Metadata) -> None:
        """Print metadata of the server, if more than replies is wanted."""
        pairs = [f"  {key}: {as_text(value)}" for key, value in metadata if key != _DETAILS_KEY]
        self.beside("\n".join((f"{title}:{'' if pairs else ' none'}", *pairs)))

    def failure(self, error: RpcError, details: list[Any], explanation: Explanation | None) -> None:
        """Print why a call failed, and where it would go now."""
        if self.is_compact:
            click.echo(as_json(_failure_data(error, details, explanation), None), err=True)
            return
        self.note("\n".join(_failure_lines(error, details)))
        if explanation is not None:
            self.explanation(explanation)

    def explanation(self, explanation: Explanation) -> None:
        """Print where a call goes now."""
        if self.is_compact:
            click.echo(as_json({"explanation": explanation.as_data()}, None), err=True)
        else:
            self.note(
                "\n".join(("where such a call goes now:", *(f"  {each}" for each in str(explanation).split("\n"))))
            )


def _failure_lines(error: RpcError, details: list[Any]) -> Iterator[str]:
    yield str(error)
    status = error.status
    if details:
        yield "details:"
        yield from (f"  {line}" for each in details for line in as_json(each).split("\n"))
    elif status.details is not None and status.rich is None:
        yield f"details: {len(status.details)} bytes that are no google.rpc.Status"


def _failure_data(error: RpcError, details: list[Any], explanation: Explanation | None) -> Mapping[str, Any]:
    status = error.status
    data = {"status": status.code.name, "code": int(status.code), "message": status.message, "note": status.note}
    data |= {"details": details, "host": error.peer}
    return data if explanation is None else data | {"explanation": explanation.as_data()}
