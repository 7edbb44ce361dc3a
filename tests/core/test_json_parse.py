"""`parse_json` and its callers survive bad JSON."""

from __future__ import annotations

import json

import pytest

from trxds.cli.check import check
from trxds.core.json_parse import MAX_DEPTH, parse_json
from trxds.core.status import BootstrapError
from trxds.resolver.service_config import parse_service_config
from trxds.xds import bootstrap


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_parse_json_returns_the_value() -> None:
    assert parse_json(b'{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    assert parse_json(nested(MAX_DEPTH)) == json.loads(nested(MAX_DEPTH))


@pytest.mark.parametrize(
    "text",
    ["", "{", nested(MAX_DEPTH + 1), nested(900), "[" * 100_000, '{"a":' * 100_000, "1" * 5000, b"\xff"],
    ids=["nothing", "half", "deep", "deeper", "endless", "endless objects", "digits", "not UTF-8"],
)
def test_parse_json_raises_json_decode_error_for_every_bad_text(text: str | bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_json(text)


def test_parse_json_names_the_members_that_an_object_has_more_than_once() -> None:
    parsed = parse_json('{"a": 1, "b": 2, "a": 3, "c": {}, "a": 4, "b": 5}')
    assert (parsed, parsed.repeated) == ({"a": 4, "b": 5, "c": {}}, ["a", "b"])


@pytest.mark.parametrize("text", ["[" * 100_000, nested(900), f'{{"node": {"1" * 5000}}}'])
def test_readers_of_a_bad_document_raise_only_their_documented_errors(text: str) -> None:
    with pytest.raises(BootstrapError, match="no valid JSON"):
        bootstrap.parse(text)
    with pytest.raises(ValueError, match="service config: no valid JSON"):
        parse_service_config(text)
    assert [finding.weight for finding in check(text).findings] == ["error"]
