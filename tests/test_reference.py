"""The reference: public names have entries, and the pages on configuration name the fields that the parsers read."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pool

import trxds
import trxds.resources.protos  # registers the messages
from trxds.core import observe
from trxds.core.json_reader import JsonNode
from trxds.lb.balancing_config import _LEAF_PARSERS, _PARENT_PARSERS, make_parser
from trxds.resolver.service_config import parse_service_config
from trxds.xds.bootstrap import FEATURES, examine

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
CODE = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def text_of(page: str) -> str:
    return (REFERENCE / page).read_text("utf-8")


def example_of(page: str) -> Any:
    (text,) = re.findall(r"^```json\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
    return json.loads(text)


def terms_of(page: str) -> set[str]:
    return set(CODE.findall(FENCED.sub("", text_of(page))))


# -- the API

PUBLIC = [
    name
    for name in (
        "trxds",
        *sorted(f"trxds.{each.name}" for each in pkgutil.iter_modules(trxds.__path__) if each.name != "__main__"),
    )
    if hasattr(importlib.import_module(name), "__all__")
]
ENTRIES = [
    entry
    for page in sorted((REFERENCE / "api").glob("*.md"))
    for entry in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)
]


def exported() -> list[tuple[str, str]]:
    return [(module, name) for module in PUBLIC for name in importlib.import_module(module).__all__]


def test_the_public_modules_are_those_that_the_stability_promise_names() -> None:
    (promise,) = re.findall(r"^- \*\*Public\*\* .*$", (ROOT / "docs" / "features.md").read_text("utf-8"), re.MULTILINE)
    assert {name for name in CODE.findall(promise) if name.startswith("trxds")} == set(PUBLIC)


def test_each_public_name_has_one_entry() -> None:
    entries = [NOT_THE_MODULE.get(entry, entry) for entry in ENTRIES if entry not in MORE_ENTRIES]
    assert sorted(entries) == sorted(f"{module}.{name}" for module, name in exported())


NOT_THE_MODULE = {"trxds.otel.telemetry.telemetry": "trxds.otel.telemetry"}
MORE_ENTRIES = {
    "trxds.testing.resources",
    "trxds.testing.pytest",
    "trxds.admin.state_stream.open",
    *(f"trxds.core.observe.{event}" for event in vars(observe) if inspect.isclass(vars(observe)[event])),
}


@pytest.mark.parametrize(("module", "name"), exported(), ids=lambda each: each)
def test_a_public_name_says_what_it_is(module: str, name: str) -> None:
    """A class or a function by its docstring, a value by the text after its definition, and its members likewise."""
    named = getattr(importlib.import_module(module), name)
    if not (inspect.isclass(named) or inspect.isroutine(named)):
        assert defined_with_a_docstring(name), "a value without a text after its definition"
        return
    sentence = (inspect.getdoc(named) or "").partition("\n")[0]
    assert sentence.endswith((".", ":", "`")) and not sentence.startswith(f"{name}("), sentence
    for title, documented in sections_of(inspect.getdoc(named) or ""):
        if title == "Args":
            wanted = [each for each in inspect.signature(named).parameters if each != "self"]
            assert documented == wanted, "the arguments, in the order of the signature"


@pytest.mark.parametrize(("module", "name"), exported(), ids=lambda each: each)
def test_each_member_of_a_public_class_says_what_it_is(module: str, name: str) -> None:
    named = getattr(importlib.import_module(module), name)
    members = vars(named) if inspect.isclass(named) and named.__module__.startswith("trxds") else {}
    functions = {
        member: value
        for member, value in members.items()
        if not member.startswith("_") and (inspect.isroutine(value) or isinstance(value, property))
    }
    assert [member for member, value in functions.items() if not inspect.getdoc(getattr(named, member))] == []


def defined_with_a_docstring(name: str) -> bool:
    definition = re.compile(rf'^{name}(?:: [^=\n]+)? = (?:[^\n]*|\(\n(?: .*\n)*\))\n"""[A-Z]', re.MULTILINE)
    return any(definition.search(file.read_text("utf-8")) for file in (ROOT / "trxds").rglob("*.py"))


def sections_of(docstring: str) -> list[tuple[str, list[str]]]:
    """The titles of a docstring's sections, and the names that they explain."""
    found = re.findall(r"^(Args|Raises):\n((?:    .*\n?|\n(?=    ))+)", docstring, re.MULTILINE)
    return [(title, re.findall(r"^    (\w[\w.]*): ", body, re.MULTILINE)) for title, body in found]


# -- JSON: the example has all fields, and the parser reads no other


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of members that a parser asks for."""
    names: set[str] = set()
    member = JsonNode.member

    def recorded(self: JsonNode, name: str) -> JsonNode:
        names.add(name)
        return member(self, name)

    monkeypatch.setattr(JsonNode, "member", recorded)
    return names


def test_the_page_of_the_bootstrap_has_the_fields_that_are_read(read: set[str]) -> None:
    _, problems = examine(example_of("bootstrap.md"))
    assert problems == []
    assert read - terms_of("bootstrap.md") == set()
    assert members(example_of("bootstrap.md")) - read == {"mesh.example", "mesh", "app"}, "shown, and not read"


def test_the_page_of_the_bootstrap_has_the_server_features() -> None:
    assert set(FEATURES) <= terms_of("bootstrap.md")


def test_the_page_of_the_service_config_has_the_fields_that_are_read(read: set[str]) -> None:
    policies = [{name: {"childPolicy": [{"round_robin": {}}], "subsetSize": 1}} for name in _PARENT_PARSERS]
    policies += [{name: {}} for name in _LEAF_PARSERS]
    detection = {"successRateEjection": {}, "failurePercentageEjection": {}}
    policies[list(_PARENT_PARSERS).index("outlier_detection_experimental")]["outlier_detection_experimental"] |= (
        detection
    )
    for policy in policies:
        config = example_of("service-config.md") | {"loadBalancingConfig": [policy]}
        parse_service_config(config, make_parser({}))  # without a problem
    older = {"loadBalancingPolicy": "round_robin"}
    parse_service_config(older, make_parser({}))
    assert read - terms_of("service-config.md") == set()
    assert members(example_of("service-config.md")) - read == {"round_robin"}


def test_the_page_of_the_service_config_has_the_policies() -> None:
    assert {*_LEAF_PARSERS, *_PARENT_PARSERS} <= terms_of("service-config.md")


def members(value: Any) -> set[str]:
    match value:
        case dict():
            return set(value).union(*map(members, value.values()))
        case list():
            return set().union(*map(members, value))
        case _:
            return set()


# -- xDS: a field on the page is one of the message, and one that its parser reads

PARSERS = {  # in trxds/resources, by the last part of a message's name
    "Listener": "listener",
    "HttpConnectionManager": "listener",
    "HttpFilter": "filters",
    "StatefulSession": "stateful_session",
    "StatefulSessionPerRoute": "stateful_session",
    "CookieBasedSessionState": "stateful_session",
    "Cookie": "stateful_session",
    "HeaderBasedSessionState": "stateful_session",
    "HTTPFault": "fault",
    "FaultDelay": "fault",
    "FaultAbort": "fault",
    "RouteConfiguration": "route",
    "VirtualHost": "route retry_policy",
    "Route": "route route_match",
    "RouteMatch": "route_match",
    "HeaderMatcher": "route_match",
    "RouteAction": "route_action retry_policy",
    "MaxStreamDuration": "route_action",
    "ClusterWeight": "route_action",
    "HashPolicy": "hash_policy",
    "RequestMirrorPolicy": "request_mirror",
    "RetryPolicy": "retry_policy",
    "Cluster": "cluster discovery leaf_policy",
    "OutlierDetection": "outlier_detection",
    "WrrLocality": "lb_policy",
    "RoundRobin": "leaf_policy slow_start",
    "RingHash": "leaf_policy",
    "LeastRequest": "leaf_policy slow_start",
    "PickFirst": "leaf_policy",
    "ClientSideWeightedRoundRobin": "leaf_policy slow_start",
    "Http11ProxyUpstreamTransport": "cluster",
    "UpstreamTlsContext": "upstream_tls",
    "CommonTlsContext": "upstream_tls",
    "CertificateValidationContext": "upstream_tls",
    "ClusterLoadAssignment": "endpoint",
    "LocalityLbEndpoints": "endpoint",
    "LbEndpoint": "endpoint",
    "Endpoint": "endpoint address",
    "Metadata": "endpoint",
}
OF_OTHERS = {  # names that the parser reads from another message than that of the section
    "RouteConfiguration": {"typed_per_filter_config"},
    "RouteMatch": {"filter_state"},
    "RouteAction": {"regex_rewrite", "prefix_rewrite"},
    "Cluster": {"common_http_protocol_options"},  # of HttpProtocolOptions
    "Route": {"name"},
}
IN_ANOTHER_WAY = {("StatefulSessionPerRoute", "disabled")}  # by WhichOneof


def sections() -> Iterator[tuple[str, set[str]]]:
    """Each message of the page, and the fields in the first column of its table."""
    for name, table in re.findall(
        r"^`((?:envoy|xds)\.[\w.]+)`\n\n((?:\|.*\n)+)", text_of("xds-fields.md"), re.MULTILINE
    ):
        rows = [row.split(" | ")[0] for row in table.splitlines()[2:]]
        yield name, {field for row in rows for field in CODE.findall(row)}


SECTIONS = [pytest.param(name, fields, id=name.rpartition(".")[2]) for name, fields in sections()]


def test_the_page_of_xds_fields_has_the_messages_that_are_looked_at_here() -> None:
    assert [name.rpartition(".")[2] for name, _ in sections()] == list(PARSERS)


@pytest.mark.parametrize(("name", "documented"), SECTIONS)
def test_the_page_of_xds_fields_has_those_that_are_read(name: str, documented: set[str]) -> None:
    short = name.rpartition(".")[2]
    fields = {field.name for field in descriptor_pool.Default().FindMessageTypeByName(name).fields}
    assert documented <= fields, "no fields of this message"
    files = [ROOT / "trxds" / "resources" / f"{file}.py" for file in PARSERS[short].split()]
    code = "\n".join(file.read_text("utf-8") for file in files)
    read = {field for field in fields if re.search(rf'\.{field}\b|"{field}"', code)} - OF_OTHERS.get(short, set())
    assert read - documented == set(), "read, and not documented"
    assert {field for field in documented - read if (short, field) not in IN_ANOTHER_WAY} == set(), "not read"
