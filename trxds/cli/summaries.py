"""The list of commands in `trxds --help` has the whole first sentence of each; click would cut it at 45 characters."""

from __future__ import annotations

import re

import click


class SummaryGroup(click.Group):
    """A group whose commands are listed with a first sentence that is not cut."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command, and make its first sentence its summary."""
        cmd.short_help = cmd.short_help or first_sentence(cmd.help or "")
        super().add_command(cmd, name)


def first_sentence(text: str) -> str:
    """Return the first sentence of a help text, without its period."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"\.(?:\s|$)", paragraph, maxsplit=1)[0]
