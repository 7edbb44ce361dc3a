"""Requests in JSON: what is split, what is accepted, and how an error names its field and place."""

from __future__ import annotations

import pytest
from google.protobuf.struct_pb2 import ListValue
from support.described_shop import POOL, Item, call_in, described_mesh

from trxds.cli.call.json_requests import JsonSplitter, JsonText, parse_request, read_requests, split_json
from trxds.cli.call.schema import CallError


def problems(text, kind=Item):
    with pytest.raises(CallError) as refused:
        requests(text, kind)
    assert refused.value.code == 2
    return str(refused.value).splitlines()


def requests(text, kind=Item):
    return [
        request
        for each in split_json(text)
        for request in read_requests(parse_request(each, "-d"), each, kind, POOL, "-d")
    ]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ("  \n", []),
        ('{"a": 1}', ['{"a": 1}']),
        ('{"a": 1}{"b": {}}', ['{"a": 1}', '{"b": {}}']),
        ('{"a": "}"}\n\n [1, {}]', ['{"a": "}"}', "[1, {}]"]),
        (r'{"a": "\"}"} 7 "x y" true', [r'{"a": "\"}"}', "7", '"x y"', "true"]),
        ('{"a": 1', ['{"a": 1']),
        ("}{}", ["}", "{}"]),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_values_that_stand_one_after_the_other_are_split(text, values, size):
    splitter = JsonSplitter()
    found = [each for start in range(0, len(text), size) for each in splitter.feed(text[start : start + size])]
    assert [each.text.strip() for each in (*found, *splitter.end())] == values


def test_a_value_is_there_as_soon_as_its_last_bracket_is():
    splitter = JsonSplitter()
    assert list(splitter.feed('{"a": {}')) == []
    assert list(splitter.feed("}")) == [JsonText('{"a": {}}')]


def test_requests_are_one_value_each_or_a_list():
    assert [each.count for each in requests('{"count": 1} [{"count": 2}, {"count": 3}]')] == [1, 2, 3]


def test_names_of_fields_and_numbers_are_those_of_proto_json():
    (item,) = requests('{"count": 1e1, "cents": "7", "kind": "FRUIT", "sizes": {"on": 2}, "sku": "\\ud83c\\udf4e/\\/"}')
    assert (item.count, item.cents, item.kind, dict(item.sizes), item.sku) == (10, 7, 1, {"on": 2}, "🍎//")


def test_a_message_whose_json_is_a_list_takes_a_list_as_one():
    (values,) = requests("[1, 2]", ListValue)
    assert list(values) == [1, 2]


def test_a_number_too_large_for_a_double_is_an_error_with_its_line():
    assert problems(f"[{'9' * 400}]", ListValue) == ["-d: line 1: int too large to convert to float"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"count": "x"}', ["-d: line 1: count: is 'x'; write a whole number"]),
        ('{"cuont": 1}', ["-d: line 1: cuont: shop.Item has no such field; did you mean 'count'?"]),
        ('{"tags": "x"}', ["-d: line 1: tags: must be a list"]),
        ('{\n\t"parts": [{},\n{"sizes": 3}]}', ["-d: line 3: parts[1].sizes: must be an object"]),
        ('{"extra": {"text": "x"}}', ["-d: line 1: extra: '@type' is missing"]),
        (
            '{"extra": {"@type": "x/shop.Nope"}}',
            ["-d: line 1: extra.@type: unknown type 'x/shop.Nope'"],
        ),
        ("7", ["-d: line 1: must be an object, the fields of shop.Item"]),
        ('[{"sku": 3}]', ["-d: line 1: [0].sku: is '3'; write a string, in quotes"]),
        ('{"cents": 1, "offer": "x"}', None),
        (
            '{"sku": "a"}\n\n{"kind": "FRIUT",\n"count": 5000000000}',
            ["-d: line 3: kind: ", "-d: line 4: count: Value out of range: 5000000000"],
        ),
    ],
)
def test_an_error_in_a_request_names_the_line_and_the_field(text, expected):
    found = problems(text)
    if expected is None:
        assert len(found) == 1 and "price" in found[0]
    else:
        assert [line.startswith(words) for line, words in zip(found, expected, strict=True)] == [True] * len(found), (
            found
        )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": }', "line 1: no valid JSON at column 7: Expecting value"),
        ('{}\n  {"a" 1}', "line 2: no valid JSON at column 8: Expecting ':' delimiter"),
        ('{"sku":\n "x', "line 2: no valid JSON at column 2: Unterminated string"),
        ("[" * 200 + "]" * 200, "line 1: no valid JSON: more than 100 nested lists and objects"),
    ],
)
def test_what_is_no_json_is_named_by_its_place(text, place):
    (problem,) = problems(text)
    assert problem.startswith(f"-d: {place}")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("{} {}", "shop.Cart/Add takes one request, and -d has 2"),
        ("", "shop.Cart/Add takes one request, and -d has none; {} is an empty one"),
        ("@/nowhere/x.json", "-d: /nowhere/x.json: No such file or directory"),
    ],
)
async def test_the_wrong_number_of_requests_is_said_before_the_call(data, words, autojump_clock):
    async with described_mesh() as mesh:
        with pytest.raises(CallError) as refused:
            await call_in(mesh, "shop.Cart/Add", data=data)
        assert (str(refused.value), refused.value.code) == (words, 2)
        assert not [call for call in mesh.servers[mesh.hosts[0]].calls if call.path == "/shop.Cart/Add"]


async def test_requests_come_from_a_file_whose_name_is_in_errors(tmp_path, capsys, autojump_clock):
    file = tmp_path / "requests.json"
    file.write_text('{"count": 4}\n{"count": "5"}\n')
    async with described_mesh() as mesh:
        assert await call_in(mesh, "shop.Cart/Fill", data=f"@{file}") == 0
        assert '"count": 9' in capsys.readouterr().out
        file.write_text('{"count": 4}\n{"count": []}\n')
        with pytest.raises(CallError, match=r"requests.json: line 2: count: is a list; write a whole number"):
            await call_in(mesh, "shop.Cart/Fill", data=f"@{file}")
        file.write_bytes(b"\xff")
        with pytest.raises(CallError, match=r"requests.json is no UTF-8 text \(invalid start byte at byte 0\)"):
            await call_in(mesh, "shop.Cart/Fill", data=f"@{file}")
