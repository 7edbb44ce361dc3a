"""What `make docs` needs to be true of docs/: a place for each page, and links that work on both sides."""

from __future__ import annotations

import importlib.util
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

_spec = importlib.util.spec_from_file_location("source", ROOT / SITE["hooks"][0])
assert _spec is not None and _spec.loader is not None
source = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(source)


def named(nav: Any) -> Iterator[str]:
    match nav:
        case str():
            yield nav
        case list():
            for each in nav:
                yield from named(each)
        case dict():
            for each in nav.values():
                yield from named(each)


def test_every_page_has_one_place() -> None:
    assert sorted(named(SITE["nav"])) == [str(page.relative_to(ROOT / "docs")) for page in PAGES]


def test_the_site_has_the_four_parts_of_diataxis() -> None:
    assert [*SITE["nav"][0], *(part for each in SITE["nav"][1:] for part in each)] == [
        "Overview",
        "Tutorial",
        "How-to guides",
        "Reference",
        "Explanation",
    ]


def test_the_front_page_leads_to_every_page() -> None:
    """The decisions have a list of their own."""
    listed = {page for page in named(SITE["nav"]) if not page.startswith("adr/0")} - {"index.md"}
    assert linked("index.md", r"(?!adr/0)[\w/-]+") == listed


def test_the_decisions_are_listed_on_a_page_of_their_own() -> None:
    pages = {page.removeprefix("adr/") for page in named(SITE["nav"]) if page.startswith("adr/")}
    assert linked("adr/README.md", r"\d[\w-]+") == pages - {"README.md"}
    assert "adr/README.md" in linked("index.md", r"adr/README")


def linked(page: str, name: str) -> set[str]:
    """The pages of that name which a page links to."""
    return set(re.findall(rf"\]\(({name}\.md)\)", (ROOT / "docs" / page).read_text("utf-8")))


@pytest.mark.parametrize("picture", sorted((DOCS / "images").glob("*.svg")), ids=lambda picture: picture.name)
def test_a_drawn_picture_needs_nothing_from_outside_and_says_what_it_shows(picture: Path) -> None:
    text = picture.read_text("utf-8")
    root = ElementTree.fromstring(text)
    described = [child.text for child in root if child.tag.endswith(("title", "desc"))]
    assert len(described) == 2 and all(described)
    assert not re.search(r'<script|<image|href="(?!#)|@import|url\((?!#)', text)
    assert "prefers-color-scheme: dark" in text


def test_a_link_out_of_docs_becomes_a_page_of_the_site() -> None:
    text = "see [this](../examples/hello.py), [that](../examples/nowhere.py) and [here](calls.md)"
    assert source.outward(text) == {"examples/hello.py"}
    assert source.inward(text) == (
        "see [this](source/examples/hello.py.md), [that](../examples/nowhere.py) and [here](calls.md)"
    )
    assert source.inward("[this](../../examples/hello.py)", 1) == "[this](../source/examples/hello.py.md)"
    assert source.inward("[a page](../README.md)", 1) == "[a page](../README.md)"
    assert "async def main" in source.shown("examples/hello.py")


def test_no_page_links_out_of_docs_in_a_way_that_the_site_does_not_know() -> None:
    def strays(page: Path) -> list[str]:
        text = source.inward(page.read_text("utf-8"), source.depth_of(str(page.relative_to(ROOT / "docs"))))
        links = re.findall(r"\]\((\.\./[^)#]+)", text)
        return [
            link for link in links if "source/" not in link and not (page.parent / link).resolve().is_relative_to(DOCS)
        ]

    assert {page.name: strays(page) for page in PAGES if strays(page)} == {}


def test_the_site_is_made_where_the_readme_says() -> None:
    """By `make docs`, which `.ci/run` calls with the rest."""
    command = (ROOT / ".ci/run").read_text("utf-8").splitlines()[-1].removeprefix("exec ")
    assert f"`{command}` is what `.ci/run` calls" in (ROOT / "README.md").read_text("utf-8")
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert "docs" in command.split() and targets >= set(command.split()[1:])
