"""A YAML file of xDS resources: read whole or refused whole, with every problem by line and field.

The file is a list of resources in proto-JSON form, each with its `@type`; several YAML documents
count as one list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from trxds.resources.protos import from_json
from trxds.resources.types import RESOURCE_TYPES

from .proto_form import Form, Place, Problem


@dataclass(frozen=True, slots=True)
class Reading:
    """The resources by (type URL, name); with problems there are none."""

    resources: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def read(text: str) -> Reading:
    try:
        return _read(yaml.SafeLoader(text))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        return Reading(problems=(Problem(line, "", f"no valid YAML: {error.problem}"),))
    except yaml.YAMLError as error:  # a character that YAML forbids
        return Reading(problems=(Problem(1, "", f"no valid YAML: {error}"),))


def _read(loader: yaml.SafeLoader) -> Reading:
    form = Form(loader)
    resources: dict[tuple[str, str], dict[str, Any]] = {}
    lines: dict[tuple[str, str], int] = {}
    problems: list[Problem] = []
    for place in _resources(loader, problems):
        value = form.value_of(place.node)  # first, because it resolves anchors and merge keys in place
        found = list(form.packed(place)) or list(_identity(place, value, lines)) or _refusal(place, value)
        problems += found
        if not found:
            resources[_key(value)] = value
    return Reading(problems=tuple(sorted(problems))) if problems else Reading(resources)


def _resources(loader: yaml.SafeLoader, problems: list[Problem]) -> Iterator[Place]:
    while loader.check_node():
        document = loader.get_node()
        if isinstance(document, yaml.SequenceNode):
            yield from (Place(node, "") for node in document.value)
        elif isinstance(document, yaml.MappingNode):
            yield Place(document, "")
        elif document is not None and document.value:
            problems.append(Place(document, "").problem("must be a list of resources, or one resource"))


def _identity(place: Place, value: dict[str, Any], lines: dict[tuple[str, str], int]) -> Iterator[Problem]:
    """A resource needs a type that xDS serves by name, and a name nobody else has."""
    if value["@type"] not in RESOURCE_TYPES:
        served = ", ".join(sorted(url.rpartition("/")[2] for url in RESOURCE_TYPES))
        yield place.problem(f"{value['@type']} is no resource of its own; there are {served}")
    elif not _key(value)[1]:
        yield place.problem("the resource has no name")
    elif (line := lines.setdefault(_key(value), place.node.start_mark.line + 1)) != place.node.start_mark.line + 1:
        yield place.problem(f"{_key(value)[1]!r} is there already, on line {line}")


def _refusal(place: Place, value: dict[str, Any]) -> list[Problem]:
    """What concerns several fields at once, such as two of a oneof, shows only when the whole is packed."""
    try:
        from_json(value)
    except ValueError as error:
        return [place.problem(str(error))]
    return []


def _key(value: dict[str, Any]) -> tuple[str, str]:
    names = (value.get(field) for field in ("name", "cluster_name", "clusterName"))
    return value["@type"], next((name for name in names if name), "")
