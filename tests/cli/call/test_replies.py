"""Replies in JSON: packed messages that nobody knows, at any depth, and characters that terminals obey."""

from __future__ import annotations

import base64
import json

from google.protobuf import descriptor_pool
from google.protobuf.timestamp_pb2 import Timestamp
from support.described_shop import FILES, Item, Note

from trxds.cli.call.json_replies import MAX_DEPTH, as_json, reply_data, unknown_types
from trxds.cli.call.printable import printable
from trxds.cli.call.schema import new_pool

POOL = new_pool()
for _file in FILES.values():
    POOL.AddSerializedFile(_file.SerializeToString())

UNKNOWN = {"@type": "type.googleapis.com/shop.Unknown", "@bytes": "AQ=="}


def packed(message):
    return {"type_url": f"type.googleapis.com/{message.DESCRIPTOR.full_name}", "value": message.SerializeToString()}


def unknown():
    return {"type_url": "type.googleapis.com/shop.Unknown", "value": b"\1"}


def test_an_unknown_message_is_shown_as_bytes_inside_of_a_known_one():
    reply = Item(extra=packed(Item(extra=unknown(), parts=[Item(extra=packed(Note(text="x")))])))
    assert unknown_types(reply, POOL) == {"shop.Unknown"}
    assert reply_data(reply, POOL) == {
        "extra": {
            "@type": "type.googleapis.com/shop.Item",
            "extra": UNKNOWN,
            "parts": [{"extra": {"@type": "type.googleapis.com/shop.Note", "text": "x"}}],
        }
    }


def test_bytes_that_are_no_message_of_their_type_are_shown_as_bytes():
    reply = Item(extra={"type_url": "type.googleapis.com/shop.Note", "value": b"\xff"})
    assert reply_data(reply, POOL)["extra"] == {"@type": "type.googleapis.com/shop.Note", "@bytes": "/w=="}


def test_messages_packed_into_each_other_without_end_are_shown_to_a_depth():
    reply = Item(sku="in the middle")
    for _ in range(MAX_DEPTH + 500):
        reply = Item(extra=packed(reply))
    data, depth = reply_data(reply, POOL), 0
    while "extra" in data:
        data, depth = data["extra"], depth + 1
    assert (depth, data.keys()) == (MAX_DEPTH + 1, {"@type", "@bytes"})


def test_fields_with_their_default_value_are_shown_on_request():
    data = reply_data(Item(sku="a"), POOL, with_defaults=True)
    assert (data["count"], data["tags"], data["kind"]) == (0, [], "UNKNOWN")


def test_characters_that_turn_a_text_around_are_escaped():
    text = as_json({"sku": "a\u202egpj.exe\u2028\u200b"}, None)
    assert text == r'{"sku":"a\u202egpj.exe\u2028\u200b"}'


def test_a_reply_without_a_json_form_is_shown_as_bytes():
    timestamp = Timestamp(seconds=10**15)
    assert reply_data(timestamp, descriptor_pool.Default()) == {
        "@type": "google.protobuf.Timestamp",
        "@bytes": base64.b64encode(timestamp.SerializeToString()).decode(),
    }


def test_characters_that_terminals_obey_are_escaped():
    text = as_json({"sku": "\x1b[31m\x9b31m\x7fü🍎"}, None)
    assert text == '{"sku":"\\u001b[31m\\u009b31m\\u007fü🍎"}'
    assert json.loads(text) == {"sku": "\x1b[31m\x9b31m\x7fü🍎"}
    assert printable("a\tb\n\x1b\r\u202eü") == "a\tb\n\\x1b\\r\\u202eü"
