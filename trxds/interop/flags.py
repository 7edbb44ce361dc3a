"""The flags that the clients of this package share."""

from __future__ import annotations

from collections.abc import Callable

import click


def boolean_flag(name: str, help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a boolean flag that harnesses may write as --name, --name=true or --name=false."""
    return click.option(f"--{name}", type=bool, is_flag=False, flag_value="true", default="false", help=help)
