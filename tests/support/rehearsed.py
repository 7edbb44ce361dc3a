"""The commands of docs/how-to/rehearse-a-change.md; `python -m support.rehearsed` in tests rewrites their outputs."""

from __future__ import annotations

import re
import shlex
import tempfile
from contextlib import chdir
from pathlib import Path

from click.testing import CliRunner
from support.transcript import Example, rewritten

from trxds.cli.main import main

DOCUMENT = Path(__file__).parents[2] / "docs/how-to/rehearse-a-change.md"


def write_files(folder: Path) -> None:
    """Write the files of the document, each named by its first line; `after.yaml` is as the text says."""
    for text in re.findall(r"^```yaml\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        name = text.partition("\n")[0].removeprefix("# ")
        (folder / name).write_text(text, "utf-8")
    before = (folder / "before.yaml").read_text("utf-8").splitlines(keepends=True)
    (folder / "after.yaml").write_text("".join(line for line in before if "10.0.1.3," not in line), "utf-8")


def played(example: Example) -> tuple[int, str]:
    """Return the exit status and the output of a command, in a folder with the files."""
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        with chdir(folder):
            done = CliRunner().invoke(main, shlex.split(example.command)[1:])
    return done.exit_code, done.output


def rewrite() -> None:
    text = DOCUMENT.read_text("utf-8")
    for example in reversed(Example.of(DOCUMENT)):
        text = rewritten(text, example, played(example)[1])
    DOCUMENT.write_text(text, "utf-8")


if __name__ == "__main__":
    rewrite()
