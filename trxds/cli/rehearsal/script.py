"""A script of steps with their times, in YAML. It is accepted or refused as a whole, with each problem by its line.

- at: 30s
  drain: 10.0.1.3:50051
- at: 60s
  kill: [10.0.1.3:50051]
  for: 20s
- at: 90s
  replace: after.yaml
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import yaml
from msgspec import Struct

from trxds.cli.quantities import parse_seconds, parse_share
from trxds.resources.proto_yaml_validator import Problem

from .actions import ACTIONS, CONTROL_PLANE
from .host_check import HostCheck
from .plan import Resource, Step

ReadFile = Callable[[str], tuple[Resource, ...]]
"""A function that returns the resources of a file; `ValueError` says why it cannot be used."""

_OPTIONS = ("at", "for", "latency", "rate")


class Script(Struct, frozen=True):
    """The steps of a script, in the order of their times; a script with problems has none.

    `remarks` are about steps that leave out some hosts of `all`.
    """

    steps: tuple[Step, ...] = ()
    problems: tuple[Problem, ...] = ()
    remarks: tuple[Problem, ...] = ()


def read_script(text: str, before: tuple[Resource, ...], read: ReadFile) -> Script:
    """Return the steps of a script for a mesh that begins with the resources `before`; `read` reads other files."""
    try:
        items = list(_items(text))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        return Script(problems=(Problem(line, "", f"no valid YAML: {error.problem}"),))
    except yaml.YAMLError as error:
        return Script(problems=(Problem(1, "", f"no valid YAML: {error}"),))
    except _Wrong as error:
        return Script(problems=(error.problem,))
    steps: list[tuple[_Item, Step]] = []
    problems: list[Problem] = []
    for item in items:
        try:
            steps.append((item, _step(item, read)))
        except _Wrong as error:
            problems.append(error.problem)
    steps.sort(key=lambda each: each[1].at)
    check = HostCheck(before, (each for _, step in steps for each in step.resources))
    accepted: list[Step] = []
    remarks: list[Problem] = []
    for item, step in steps:
        try:
            checked, remark = check.checked(step)
        except ValueError as error:
            problems.append(item.wrong(step.action, str(error)).problem)
        else:
            accepted.append(checked)
            remarks += [Problem(item.line, step.action, remark)] if remark else []
    return Script(problems=tuple(sorted(problems))) if problems else Script(tuple(accepted), remarks=tuple(remarks))


class _Wrong(Exception):
    def __init__(self, line: int, field: str, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(line, field, message)


class _Item(Struct, frozen=True):
    line: int
    fields: dict[str, Any]
    lines: dict[str, int]

    def wrong(self, field: str, message: str) -> _Wrong:
        return _Wrong(self.lines.get(field, self.line), field, message)

    def text(self, field: str) -> str:
        value = self.fields[field]
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
        raise self.wrong(field, "must be a text or a number")


def _items(text: str) -> Iterator[_Item]:
    loader = yaml.SafeLoader(text)
    root = loader.get_single_node()
    if not isinstance(root, yaml.SequenceNode) or not root.value:
        raise _Wrong(1, "", "must be a list of steps, such as `- {at: 30s, drain: 10.0.1.3:50051}`")
    for node in root.value:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            raise _Wrong(line, "", "must be a step with `at` and an action")
        lines = {str(key.value): key.start_mark.line + 1 for key, _ in node.value}
        # Texts stay as they are written: YAML 1.1 would read `1:30` and `10.0.1.3:50051` alike as something else.
        fields = {str(key.value): _plain(value) for key, value in node.value}
        yield _Item(line, fields, lines)


def _plain(node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_plain(each) for each in node.value]
    return node.value if isinstance(node, yaml.ScalarNode) else None


def _step(item: _Item, read: ReadFile) -> Step:
    actions = [key for key in item.fields if key not in _OPTIONS]
    unknown = [key for key in actions if key not in ACTIONS]
    if unknown:
        raise item.wrong(unknown[0], f"is no action; there are {', '.join(ACTIONS)}")
    if len(actions) != 1:
        found = f"both {' and '.join(actions)}" if actions else "none"
        raise item.wrong("", f"a step has one action, and this one has {found}; there are {', '.join(ACTIONS)}")
    if "at" not in item.fields:
        raise item.wrong("", "the step has no `at`, the time at which it happens")
    (action,) = actions
    at, lasts = _seconds(item, "at"), _seconds(item, "for") if "for" in item.fields else None
    if at <= 0:
        raise item.wrong(
            "at", "must be later than 0: the time before the first step is what the others are compared to"
        )
    if lasts is not None and ACTIONS[action].undo is None:
        raise item.wrong("for", f"{action} is not undone; leave it out")
    needs = ACTIONS[action].needs
    if needs == "file":
        name = item.text(action)
        try:
            return Step(at, action, f"replace by {name}", lasts=lasts, resources=read(name))
        except ValueError as error:
            raise item.wrong(action, str(error)) from None
    if needs == CONTROL_PLANE:
        return _control_plane(item, action, at, lasts)
    return _hosts(item, action, at, lasts)


def _control_plane(item: _Item, action: str, at: float, lasts: float | None) -> Step:
    if item.text(action) != CONTROL_PLANE:
        raise item.wrong(action, f"must be {CONTROL_PLANE}; kill hosts, and start them, by `kill` with `for`")
    away = f" for {lasts:g} s" if lasts is not None else ""
    return Step(
        at, action, f"{action} the control plane{away}", lasts=0.0 if action == "restart" and not lasts else lasts
    )


def _hosts(item: _Item, action: str, at: float, lasts: float | None) -> Step:
    value = item.fields[action]
    hosts = value if isinstance(value, list) else [value]
    if not hosts or not all(isinstance(host, str) and host for host in hosts):
        raise item.wrong(action, "must be an address, host:port, a list of them, or all")
    number, text = 0.0, ""
    if action == "slow":
        if "latency" not in item.fields:
            raise item.wrong(action, "needs `latency`, in one direction")
        number, text = _seconds(item, "latency"), f" by {item.text('latency')}"
    elif action == "fail":
        if "rate" not in item.fields:
            raise item.wrong(action, "needs `rate`, the share of calls that fail")
        try:
            number, text = parse_share(item.text("rate")), f" for {item.text('rate')} of calls"
        except ValueError as error:
            raise item.wrong("rate", str(error)) from None
    away = f" for {lasts:g} s" if lasts is not None else ""
    return Step(at, action, f"{action} {', '.join(hosts)}{text}{away}", tuple(hosts), lasts, number)


def _seconds(item: _Item, field: str) -> float:
    try:
        return parse_seconds(item.text(field))
    except ValueError as error:
        raise item.wrong(field, str(error)) from None
