"""The kinds of parameters that several commands have, checked where click's own let NaN pass."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, TextIO

import click
from click.core import ParameterSource

from trxds.core.json_reader import unicode_problem

from .quantities import parse_seconds

BOOTSTRAP_HELP = (
    "The bootstrap, for an xds: target.  [default: of GRPC_XDS_BOOTSTRAP, a path, or GRPC_XDS_BOOTSTRAP_CONFIG, a text]"
)

# The name of an argument of `open_channel`, with which the message of an error about it begins.
_ARGUMENT = re.compile(r"^(service_config|bootstrap|authority|server_name)(?= (?:cannot|is|has)\b|:? ')")


class _Seconds(click.ParamType):  # type: ignore[type-arg]  # no generic class before click 8.4
    """Seconds as `parse_seconds` reads them, above 0 unless 0 has a meaning."""

    name = "TIME"

    def __init__(self, *, is_above_zero: bool = True) -> None:
        self._is_above_zero = is_above_zero

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = parse_seconds(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if self._is_above_zero and not seconds:
            self.fail(f"{value!r} is no time above 0, such as 500ms or 30s", param, ctx)
        return seconds


SECONDS = _Seconds()
SECONDS_OR_ZERO = _Seconds(is_above_zero=False)


class FiniteRange(click.FloatRange):
    """A number in a range. `click.FloatRange` lets NaN pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no finite number", param, ctx)
        return number


def utf8_text(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return a text of the command line that is sent to a server; one that is no UTF-8 is a usage error."""
    if value and unicode_problem(value):
        raise click.BadParameter("it is no UTF-8 text")
    return value


def method_path(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return a method with the slash before it, which `trxds call` and grpcurl leave out."""
    text = utf8_text(context, parameter, value)
    return text if text.startswith("/") else f"/{text}"


def utf8_paths(context: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths of files for protoc, which takes none that is no UTF-8: a usage error."""
    for path in paths:
        if unicode_problem(path):
            raise click.BadParameter(f"the path {click.format_filename(path)} is no UTF-8 text, and protoc needs that")
    return paths


def read_text(file: TextIO, option: str) -> str:
    """Return the text of an option's file; one that is no UTF-8 is a usage error."""
    try:
        return file.read()
    except UnicodeDecodeError as error:
        place = f"{error.reason} at byte {error.start}"
        raise click.UsageError(f"{option}: {file.name} is no UTF-8 text ({place})") from None


def in_options(message: str) -> str:
    """Return the message of an error about an argument of `open_channel` with the name of the option for it."""
    message = re.sub(r"^service config:", "--service-config:", message)
    message = message.replace(", and those in resolvers=", "")  # a command has none
    return _ARGUMENT.sub(_as_option, message)


def _as_option(name: re.Match[str]) -> str:
    return f"--{name[1].replace('_', '-')}"


def refuse_options(names: Iterable[str], reason: str) -> None:
    """Raise a usage error if the command line, not the environment, has one of these parameters."""
    context = click.get_current_context()
    for each in context.command.params:
        if each.name in names and context.get_parameter_source(each.name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{each.opts[0]} {reason}")
