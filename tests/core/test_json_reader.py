"""`JsonNode` accepts numbers and durations, and records a problem for anything else."""

import json

import pytest

from trxds.core.json_parse import parse_json
from trxds.core.json_reader import JsonNode


def number(text):
    """Return the number that is read from a JSON text, and the problems."""
    problems = []
    return JsonNode(json.loads(text), problems).number(7.0), [str(each) for each in problems]


@pytest.mark.parametrize("text", ["1e400", "-1e400", "NaN", "1" + 400 * "0", "-1" + 400 * "0"])
def test_a_json_number_beyond_float_is_a_problem(text):
    assert number(text) == (7.0, ["top level: is too large, or no number; write one that fits into 64 bits"])


@pytest.mark.parametrize("text", ["0", "-2.5", "1e308", '"3"'])
def test_a_json_number_is_read_unchanged(text):
    value, problems = number(text)
    assert (value, problems) == (float(json.loads(text)), [])


def test_a_json_boolean_is_no_number():
    assert number("true") == (7.0, ["top level: is a boolean; write a number"])


def test_half_of_a_surrogate_pair_is_no_text():
    problems = []
    assert JsonNode(json.loads(r'"n\ud800"'), problems).text("default") == "default"
    assert [str(each) for each in problems] == ["top level: has half of a surrogate pair; write whole characters"]


def test_a_whole_surrogate_pair_is_a_text():
    problems = []
    assert (JsonNode(json.loads(r'"\ud83d\ude00"'), problems).text(), problems) == ("\U0001f600", [])


def test_each_member_that_is_there_more_than_once_is_a_problem_with_its_place():
    problems = []
    text = '{"b": [{"c d": {"x": 1, "x": 2}}, {"e": {"x": {"y": 1, "y": 1}}}], "a": 1, "a": 2}'
    JsonNode(parse_json(text), problems).report_repeated()
    assert [str(each) for each in problems] == [
        "top level: has 'a' more than once; keep one of them",
        "b[0]['c d']: has 'x' more than once; keep one of them",
        "b[1].e.x: has 'y' more than once; keep one of them",
    ]


def duration(text):
    """Return the seconds of a duration, and the problems."""
    problems = []
    return JsonNode(text, problems).duration(7.0), [str(each) for each in problems]


@pytest.mark.parametrize("text", ["0s", "1.5s", "315576000000s"])
def test_a_duration_is_read_in_seconds(text):
    assert duration(text) == (float(text[:-1]), [])


@pytest.mark.parametrize("text", ["315576000000.5s", "999999999999s"])
def test_a_duration_of_more_than_ten_thousand_years_is_a_problem(text):
    assert duration(text) == (7.0, [f"top level: is '{text}'; write at most \"315576000000s\""])


@pytest.mark.parametrize("text", ["1", "", ".5s", "1.s", "-1s", " 1s", "1e3s", "0.1234567891s", "1234567890123s"])
def test_a_duration_in_another_form_is_a_problem(text):
    assert duration(text) == (7.0, [f"top level: is '{text}'; write seconds such as \"600s\""])
