from __future__ import annotations

from trxds.resources.validation_errors import MAX_SIZE, ValidationErrors


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


def test_the_texts_of_thousands_of_errors_are_the_first_ones_and_a_count() -> None:
    problems = ValidationErrors()
    for index in range(50_000):
        problems.at(f"endpoints[{index}]").add("no IP address")
    *shown, rest = problems.texts
    assert shown[0] == "field:endpoints[0] error:no IP address"
    assert MAX_SIZE - 100 < sum(map(len, shown)) <= MAX_SIZE
    assert rest == f"and {50_000 - len(shown)} more"


def test_a_first_error_that_is_too_long_is_cut() -> None:
    problems = ValidationErrors()
    problems.add("x" * MAX_SIZE)
    problems.at("a").add("short")
    assert problems.texts == (f"field: error:{'x' * (MAX_SIZE - 13)}... (13 more characters)", "and 1 more")
