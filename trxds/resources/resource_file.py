"""A YAML file of xDS resources. It is accepted or refused as a whole, with every problem by line and field.

The file is a list of resources in proto-JSON form, each with its `@type`; several YAML documents
count as one list. Envoy's files have the list under `resources`, and are read too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import yaml

from .missing_references import ReadResource, find_missing_references
from .proto_yaml_validator import Problem, ProtoValidator, YamlNode, repeated_keys
from .protos import TYPE_PREFIX, from_json
from .types import RESOURCE_TYPES, ParseContext

MAX_NODES = 1_000_000
"""Values of one resource, with aliases written out; the largest sets of endpoints have a tenth of that."""

_MERGE, _TEXT = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True)
class ResourceFile:
    """The resources by (type URL, name). A file with problems has no resources.

    `lines` says where each begins. `remarks` are about well-formed resources that clients will refuse, and about names
    that lead nowhere.
    """

    resources: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    remarks: tuple[Problem, ...] = ()
    lines: dict[tuple[str, str], int] = field(default_factory=dict, compare=False)


def read_resource_file(text: str, clients: ParseContext | None = None) -> ResourceFile:
    """Return the resources or the problems of a file; with the settings of `clients`, remarks about them too."""
    try:
        return _read(_Loader(text), clients)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        remedy = "; indent with spaces" if error.problem and "'\\t'" in error.problem else ""
        return ResourceFile(problems=(Problem(line, "", f"no valid YAML: {error.problem}{remedy}"),))
    # A thousand brackets fit into one line of YAML.
    except RecursionError:
        return ResourceFile(problems=(Problem(1, "", "too many lists and mappings inside of each other"),))
    except yaml.YAMLError as error:  # a character that YAML forbids
        return ResourceFile(problems=(Problem(1, "", f"no valid YAML: {error}"),))


class _Loader(yaml.SafeLoader):
    """A loader whose errors all have a line: of a bad number or date, PyYAML raises Python's own error without one."""

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node = super().compose_scalar_node(anchor)
        try:
            # JSON writes a character beyond U+FFFF as two halves, which YAML takes for two characters.
            node.value = node.value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            text = "half of a surrogate pair, which is no character"
            raise yaml.composer.ComposerError(None, None, text, node.start_mark) from None
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge what `<<` names into the mapping; what it has itself goes before that."""
        own = [(key, value) for key, value in node.value if key.tag != _MERGE]
        for key, _ in own:
            # Field names and keys of maps are texts in proto JSON, also `5` and `on`.
            if isinstance(key, yaml.ScalarNode):
                key.tag = _TEXT
        super().flatten_mapping(node)
        # PyYAML leaves the keys that are replaced where they are, and they would count as written twice.
        merged = {str(key.value): (key, value) for key, value in node.value[: len(node.value) - len(own)]}
        for key, _ in own:
            merged.pop(str(key.value), None)
        node.value = [*merged.values(), *own]

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, ArithmeticError, AttributeError) as error:
            shown = f"{node.value:.40}" if isinstance(node.value, str) else "this value"
            kind = str(node.tag).rpartition(":")[2]
            text = f"{shown!r} is read as {kind}, and is none; write text in quotes"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark) from error


def _read(loader: yaml.SafeLoader, clients: ParseContext | None) -> ResourceFile:
    form = ProtoValidator(loader)
    resources: dict[tuple[str, str], dict[str, Any]] = {}
    lines: dict[tuple[str, str], int] = {}
    problems: list[Problem] = []
    remarks: list[Problem] = []
    accepted: list[ReadResource] = []
    for place in _resources(loader, problems):
        if _expanded_size(place.node, {}) > MAX_NODES:
            problems.append(place.problem(f"has more than {MAX_NODES:,} values, with its aliases written out"))
            continue
        value = form.value_of(place.node)  # first, because it resolves anchors and merge keys in place
        found = list(form.packed(place)) or list(_identity(place, value, lines)) or _refusal(place, value)
        problems += found
        if not found:
            resources[_key(value)] = value
            if clients is None:
                continue
            parsed = _parsed_by_clients(place, value, clients)
            if isinstance(parsed, Problem):
                remarks.append(parsed)
            else:
                accepted.append(ReadResource(place, parsed))
    if problems:
        return ResourceFile(problems=tuple(sorted(problems)))
    missing = find_missing_references(accepted, resources.keys()) if clients is not None else ()
    return ResourceFile(resources, remarks=(*remarks, *missing), lines=lines)


def _expanded_size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return how many nodes a node has with all its aliases written out: twenty lines of aliases may be a million."""
    size = sizes.get(id(node))
    if size is None:
        sizes[id(node)] = 0  # an alias of what it is in; the loader refuses that
        children: Iterable[yaml.Node] = ()
        if isinstance(node, yaml.MappingNode):
            children = chain.from_iterable(node.value)
        elif isinstance(node, yaml.SequenceNode):
            children = node.value
        # Each node is counted once, or the aliases would be walked as often as they are written.
        size = sizes[id(node)] = 1 + sum(_expanded_size(child, sizes) for child in children)
    return size


def _resources(loader: yaml.SafeLoader, problems: list[Problem]) -> Iterator[YamlNode]:
    empty = True
    while loader.check_node():
        document = loader.get_node()
        listed = _list_in(document)
        if listed is not None:
            if isinstance(document, yaml.MappingNode):
                problems += repeated_keys(YamlNode(document, ""))
            yield from (YamlNode(node, "") for node in listed.value)
        elif isinstance(document, yaml.MappingNode):
            yield YamlNode(document, "")
        elif document is not None and document.value:
            problems.append(YamlNode(document, "").problem("must be a list of resources, or one resource"))
        else:
            continue
        empty = False
    if empty:
        # An editor may empty a file for a moment, so a file that is meant to be empty must contain [].
        problems.append(Problem(1, "", "the file is empty; write a list of resources, or [] for none"))


def _list_in(document: yaml.Node | None) -> yaml.SequenceNode | None:
    """Return the resources of a list, or of the `resources` of a discovery response, as Envoy's files have it."""
    if isinstance(document, yaml.SequenceNode):
        return document
    if not isinstance(document, yaml.MappingNode):
        return None
    # With an @type it is one resource, whatever its fields are called.
    fields = {key.value: value for key, value in document.value if isinstance(key, yaml.ScalarNode)}
    listed = fields.get("resources")
    return listed if isinstance(listed, yaml.SequenceNode) and "@type" not in fields else None


def _identity(place: YamlNode, value: dict[str, Any], lines: dict[tuple[str, str], int]) -> Iterator[Problem]:
    """Check that a resource has a type that xDS serves by name, and a name of its own."""
    if (written := f"{TYPE_PREFIX}{value['@type']}") in RESOURCE_TYPES:
        yield place.problem(f"the @type has no prefix; write {written!r}")
    elif value["@type"] not in RESOURCE_TYPES:
        served = ", ".join(sorted(url.rpartition("/")[2] for url in RESOURCE_TYPES))
        yield place.problem(f"{value['@type']} is no resource of its own; there are {served}")
    elif not _key(value)[1]:
        yield place.problem("the resource has no name")
    elif (line := lines.setdefault(_key(value), place.node.start_mark.line + 1)) != place.node.start_mark.line + 1:
        yield place.problem(f"{_key(value)[1]!r} is there already, on line {line}")


def _refusal(place: YamlNode, value: dict[str, Any]) -> list[Problem]:
    """Return an error about several fields, such as two of a oneof: only parsing the whole resource shows it."""
    try:
        from_json(value)
    except ValueError as error:
        return [place.problem(str(error))]
    return []


def _parsed_by_clients(place: YamlNode, value: dict[str, Any], clients: ParseContext) -> object:
    """Return the resource as clients read it; a `Problem` for a well-formed one that they refuse."""
    kind = RESOURCE_TYPES[value["@type"]]
    parsed = kind.read(from_json(value), clients)
    if parsed.errors:
        errors = kind.validation_message(parsed.errors)
        return place.problem(f'clients refuse {kind.kind} resource "{_key(value)[1]}" (NACK): {errors}')
    return parsed.value


def _key(value: dict[str, Any]) -> tuple[str, str]:
    names = (value.get(field) for field in ("name", "cluster_name", "clusterName"))
    return value["@type"], next((name for name in names if name), "")
