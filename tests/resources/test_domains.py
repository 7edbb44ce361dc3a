from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trxds.resources.route import DomainKind, VirtualHost, domain_kind, domain_matches, find_virtual_host


def found(authority: str, *domains: str) -> str | None:
    """The domain of the virtual host that was chosen, each domain having one."""
    host = find_virtual_host([VirtualHost(domain, (domain,)) for domain in domains], authority)
    return host.name if host else None


def test_an_exact_domain_goes_before_a_suffix_that_before_a_prefix_and_the_star_comes_last() -> None:
    domains = ["*", "www.*", "*.org", "www.x.org"]
    chosen = []
    while domains:
        chosen.append(found("www.x.org", *domains))
        domains.pop()
    assert chosen == ["www.x.org", "*.org", "www.*", "*"]


def test_the_longest_of_a_kind_wins() -> None:
    assert found("a.b.c", "*.c", "*.b.c", "*c") == "*.b.c"
    assert found("a.b.c", "a.*", "a.b.*", "a*") == "a.b.*"


def test_the_first_virtual_host_wins_among_equal_domains() -> None:
    first, second = VirtualHost("first", ("svc",)), VirtualHost("second", ("svc",))
    assert find_virtual_host([first, second], "svc") is first


def test_a_virtual_host_matches_by_any_of_its_domains() -> None:
    host = VirtualHost("h", ("a", "b", "*.c"))
    assert find_virtual_host([host], "x.c") is host


def test_an_authority_without_a_matching_domain_has_no_virtual_host() -> None:
    assert found("svc", "other", "*.svc", "svc.*", "*vcx") is None
    assert find_virtual_host([], "svc") is None


@pytest.mark.parametrize("domain", ["*.b", "a.*"])
def test_all_of_a_domain_but_its_star_has_to_match(domain: str) -> None:
    assert domain_matches(domain, "a.b")
    assert not domain_matches(domain, "acb")
    assert not domain_matches(domain, "c.d")


@pytest.mark.parametrize(("domain", "authority"), [("*.x", ".x"), ("x.*", "x."), ("*x", "x")])
def test_a_star_stands_for_at_least_one_character(domain: str, authority: str) -> None:
    assert not domain_matches(domain, authority)


def test_case_does_not_matter() -> None:
    assert found("SVC.Example", "*.EXAMPLE") == "*.EXAMPLE"


@pytest.mark.parametrize(
    ("domain", "kind"),
    [
        ("", None),
        ("a*b", None),
        ("*", DomainKind.UNIVERSAL),
        ("*a", DomainKind.SUFFIX),
        ("*a*", DomainKind.SUFFIX),
        ("a*", DomainKind.PREFIX),
        ("a:80", DomainKind.EXACT),
    ],
)
def test_the_star_decides_the_kind(domain: str, kind: DomainKind | None) -> None:
    assert domain_kind(domain) is kind


@given(st.text("ab.", min_size=1, max_size=4), st.lists(st.text("ab.*", max_size=4), max_size=5))
def test_an_invalid_pattern_never_matches_and_the_star_always_does(authority: str, domains: list[str]) -> None:
    assert found(authority, *domains, "*") is not None
    chosen = found(authority, *domains)
    assert chosen is None or domain_kind(chosen) is not None
