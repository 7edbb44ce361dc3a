"""docs/reference/cli.md, made from the commands: `cd tests && python -m support.cli_reference` writes it anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from trxds.cli.main import main

DOCUMENT = Path(__file__).parents[2] / "docs/reference/cli.md"

BEGIN = """# Commands

The commands of `trxds` and their options, from `trxds COMMAND --help`. [Operating](../operating.md) shows which one
to use when, with real output.

| exit status | meaning |
|---|---|
| 0 | all is well |
| 1 | the command has an answer, and the answer is bad |
| 2 | the command line is wrong |
| 3 | there is no answer: no such program, no configuration in time, Ctrl-C, or no room for the output |

| environment variable | for |
|---|---|
| `TRXDS_ADMIN` | ADDRESS, in the commands that ask a running program |
| `TRXDS_ADMIN_TOKEN` | `--token` |
| `TRXDS_LOG` | the [log](../logs.md) on stderr: `TRXDS_LOG=xds,lb` |
| `TRXDS_SESSION_TOKEN` | `--session-token` of `trxds call` |
| `GRPC_XDS_BOOTSTRAP`, `GRPC_XDS_BOOTSTRAP_CONFIG` | the bootstrap of `explain` and `call`: a path, or the JSON |
| `NO_COLOR` | no colours, also on a terminal |

## Completion in a shell

Commands, options and their values are completed with the Tab key. Add the line of your shell to its start file:

| shell | file | line |
|---|---|---|
| bash, from 4.4 | `~/.bashrc` | `eval "$(_TRXDS_COMPLETE=bash_source trxds)"` |
| zsh | `~/.zshrc` | `eval "$(_TRXDS_COMPLETE=zsh_source trxds)"` |
| fish | `~/.config/fish/completions/trxds.fish` | `_TRXDS_COMPLETE=fish_source trxds \\| source` |

Each new shell then starts `trxds` once. To spare that, write the output to a file, and have the start file read it:
`_TRXDS_COMPLETE=bash_source trxds > ~/.trxds-complete.bash`.
"""


def reference() -> str:
    """Return the page."""
    root = click.Context(main, info_name="trxds")
    commands = sorted(main.commands.items())
    return "\n".join([BEGIN, *("\n".join(_section(click.Context(each, root, name))) for name, each in commands)])


def _section(context: click.Context) -> Iterator[str]:
    command = context.command
    yield f"## {context.command_path}\n"
    yield f"`{' '.join([context.command_path, *command.collect_usage_pieces(context)])}`\n"
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        yield f"{_plain(' '.join(paragraph.split()))}\n"
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):  # the arguments are in the text above
            option, text = (" ".join(each.split()) for each in record)
            yield f"- `{option}`: {_plain(text)}" if text else f"- `{option}`"
    yield ""


def _plain(text: str) -> str:
    """Keep what Markdown would take for emphasis or a link as it is, but for code."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<>\[\]])", r"\\\1", each) for each in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(reference(), "utf-8")
