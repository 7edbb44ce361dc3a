from __future__ import annotations

from trxds.resources.validation_errors import ValidationErrors


def test_a_problem_names_the_field_it_was_found_at() -> None:
    problems = ValidationErrors()
    problems.at("virtual_hosts[0]").at("routes[3].match").add("field not present")
    assert problems.texts == ("field:virtual_hosts[0].routes[3].match error:field not present",)


def test_a_key_in_brackets_follows_without_a_dot() -> None:
    problems = ValidationErrors()
    problems.at("http_filters").at("[2]").at("name").add("empty filter name")
    assert problems.texts == ("field:http_filters[2].name error:empty filter name",)


def test_several_problems_of_one_field_are_one_text() -> None:
    problems = ValidationErrors()
    problems.at("a").add("one")
    problems.at("b").add("two")
    problems.at("a").add("three")
    assert problems.texts == ("field:a errors:[one; three]", "field:b error:two")


def test_problems_are_seen_from_every_field_of_the_resource() -> None:
    problems = ValidationErrors()
    below = problems.at("a")
    assert not problems
    below.add("wrong")
    assert problems and below and problems.at("b")
    assert problems.count == 1


def test_the_repr_of_validation_errors_has_field_and_errors() -> None:
    problems = ValidationErrors()
    assert repr(problems) == "<ValidationErrors at 'the resource': none>"
    problems.at("a").add("wrong")
    assert repr(problems.at("b")) == "<ValidationErrors at 'b': field:a error:wrong>"
