"""Commands that a document shows, run again: what it says they print has to be what they print.

    <!-- scene: nack, exit 1 -->

    ```console
    $ trxds explain xds:///shop /shop.Cart/Add
    ...
    ```

The document has names and addresses of its own; `Names` tells which real ones stand behind them. What is another one at
every run, such as times, ages and draws, is left out of the comparison, and so are columns' widths.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import trio
from click.testing import CliRunner

from trxds.cli.main import main

_BLOCK = re.compile(
    r"^<!-- scene: (?P<scene>[\w ]+)(?:, exit (?P<exit>\d))? -->\n\n"
    r"```console\n\$ (?P<command>.*)\n(?P<output>(?:.*\n)*?)```$",
    re.MULTILINE,
)
_VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\d\d:\d\d:\d\d(\.\d+)?"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|min|h)\b"), "SECONDS"),
    (re.compile(r"drew \d+"), "drew SOME"),
    (re.compile(r"#\d+\b"), "#CALL"),
    (re.compile(r"\b[0-9a-f]{8}\b"), "VERSION"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r"[─━-]{3,}"), "---"),
)


@dataclass(frozen=True)
class Example:
    scene: str
    exit: int
    command: str
    output: str
    span: tuple[int, int]  # of the output, in the document
    line: int  # of the document

    @classmethod
    def of(cls, document: Path) -> list[Example]:
        text = document.read_text("utf-8")
        return [
            cls(
                one["scene"],
                int(one["exit"] or 0),
                one["command"],
                one["output"],
                one.span("output"),
                text.count("\n", 0, one.start()) + 1,
            )
            for one in _BLOCK.finditer(text)
        ]


@dataclass(frozen=True)
class Names:
    """What the document calls things, and what they are called in this run."""

    real: Mapping[str, str]

    def in_this_run(self, text: str) -> str:
        return _replaced(text, self.real)

    def documented(self, text: str) -> str:
        return _replaced(text, {real: name for name, real in self.real.items()})


def _replaced(text: str, names: Mapping[str, str]) -> str:
    """The longest first, and what was put in is not looked at again."""
    if not names:
        return text
    any_of = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(any_of, lambda found: names[found[0]], text)


async def printed(command: str, names: Names, environ: Mapping[str, str]) -> tuple[int, str]:
    """The exit status, and what it prints, in the document's names. It runs in a thread, on a loop of its own."""
    program, *words = shlex.split(names.in_this_run(command))
    assert program == "trxds"
    done = await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, words, env=dict(environ)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, names.documented(done.output)


def comparable(output: str) -> list[str]:
    lines = output.strip().splitlines()
    for varies, constant in _VARIES:
        lines = [varies.sub(constant, line) for line in lines]
    return [line.strip() for line in lines]


def rewritten(document: str, example: Example, output: str) -> str:
    """The document with what the command printed in the place of what it said; the later examples first."""
    start, end = example.span
    return f"{document[:start]}{output.strip()}\n{document[end:]}"
