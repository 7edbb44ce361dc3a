"""A YAML file of xDS resources: read whole or refused whole, with every problem by line and field.

The file is a list of resources in proto-JSON form, each with its `@type`; several YAML documents
count as one list. Envoy's files have the list under `resources`, and are read too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from trxds.resources.protos import from_json
from trxds.resources.types import RESOURCE_TYPES, ParseContext

from .proto_form import Form, Place, Problem


@dataclass(frozen=True, slots=True)
class Reading:
    """The resources by (type URL, name); with problems there are none.

    `remarks` are about resources that are what their type says and that clients refuse all the same.
    """

    resources: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    remarks: tuple[Problem, ...] = ()


def read(text: str) -> Reading:
    try:
        return _read(yaml.SafeLoader(text))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        return Reading(problems=(Problem(line, "", f"no valid YAML: {error.problem}"),))
    except RecursionError:
        return Reading(problems=(Problem(1, "", "too many lists and mappings inside of each other"),))
    except yaml.YAMLError as error:  # a character that YAML forbids
        return Reading(problems=(Problem(1, "", f"no valid YAML: {error}"),))


def _read(loader: yaml.SafeLoader) -> Reading:
    form = Form(loader)
    resources: dict[tuple[str, str], dict[str, Any]] = {}
    lines: dict[tuple[str, str], int] = {}
    problems: list[Problem] = []
    remarks: list[Problem] = []
    for place in _resources(loader, problems):
        value = form.value_of(place.node)  # first, because it resolves anchors and merge keys in place
        found = list(form.packed(place)) or list(_identity(place, value, lines)) or _refusal(place, value)
        problems += found
        if not found:
            resources[_key(value)] = value
            remarks += _nacks(place, value)
    return Reading(problems=tuple(sorted(problems))) if problems else Reading(resources, remarks=tuple(remarks))


def _resources(loader: yaml.SafeLoader, problems: list[Problem]) -> Iterator[Place]:
    empty = True
    while loader.check_node():
        document = loader.get_node()
        listed = _list_in(document)
        if listed is not None:
            yield from (Place(node, "") for node in listed.value)
        elif isinstance(document, yaml.MappingNode):
            yield Place(document, "")
        elif document is not None and document.value:
            problems.append(Place(document, "").problem("must be a list of resources, or one resource"))
        else:
            continue
        empty = False
    if empty:
        # An editor may empty a file for a moment; whoever means it can say so.
        problems.append(Problem(1, "", "the file is empty; write a list of resources, or [] for none"))


def _list_in(document: yaml.Node | None) -> yaml.SequenceNode | None:
    """The resources, in a list or, as Envoy has it, under `resources` of what looks like a response of xDS."""
    if isinstance(document, yaml.SequenceNode):
        return document
    if not isinstance(document, yaml.MappingNode):
        return None
    fields = {key.value: value for key, value in document.value if isinstance(key, yaml.ScalarNode)}
    listed = fields.get("resources")
    return listed if isinstance(listed, yaml.SequenceNode) and "@type" not in fields else None


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


class _Every(frozenset[str]):
    """Which certificate providers there are is said in each client's bootstrap, and cannot be known here."""

    def __contains__(self, name: object) -> bool:
        return True


def _nacks(place: Place, value: dict[str, Any]) -> Iterator[Problem]:
    """Well formed, and still nothing that a client can use: it would not come into force anywhere."""
    kind = RESOURCE_TYPES[value["@type"]]
    context = ParseContext(certificate_providers=_Every())
    if errors := kind.read(from_json(value), context).errors:
        yield place.problem(f'clients refuse {kind.kind} resource "{_key(value)[1]}" (NACK): {kind.complaint(errors)}')


def _key(value: dict[str, Any]) -> tuple[str, str]:
    names = (value.get(field) for field in ("name", "cluster_name", "clusterName"))
    return value["@type"], next((name for name in names if name), "")
