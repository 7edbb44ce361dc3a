"""Links that lead out of docs/, to a program or a source file, work in the site as they do in the repository.

A page may say `[the example](../examples/hello.py)`, and a page in a folder of docs/ writes one `../` more. The file
becomes a page of the site, shown as code, and the link leads there. A link to a file that is not there is left alone,
and `--strict` makes an error of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent.parent
LANGUAGES = {".py": "python", ".md": "markdown", ".toml": "toml", ".proto": "protobuf", ".yaml": "yaml"}

_OUTWARD = re.compile(r"\]\(((?:\.\./)+)([\w./-]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File, InclusionLevel

    pages = files.documentation_pages()
    wanted = {path for page in pages for path in outward(page.content_string, depth_of(page.src_uri))}
    for path in sorted(wanted):
        made = File.generated(config, page_of(path), content=shown(path), inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(made)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    return inward(markdown, depth_of(page.file.src_uri))


def depth_of(page: str) -> int:
    """How many folders of docs/ a page is in."""
    return page.count("/")


def outward(text: str, depth: int = 0) -> set[str]:
    """The files outside docs/ that a page links to, from the root of the repository."""
    return {link[2] for link in _OUTWARD.finditer(text) if leads_out(link, depth)}


def inward(text: str, depth: int = 0) -> str:
    """The page with those links to the site's own pages."""
    return _OUTWARD.sub(
        lambda link: f"]({'../' * depth}{page_of(link[2])})" if leads_out(link, depth) else link[0], text
    )


def leads_out(link: re.Match[str], depth: int) -> bool:
    return link[1].count("../") == depth + 1 and (ROOT / link[2]).is_file()


def page_of(path: str) -> str:
    return f"source/{path}.md"


def shown(path: str) -> str:
    file = ROOT / path
    language = LANGUAGES.get(file.suffix, "text")
    return f"# {path}\n\n~~~~ {language}\n{file.read_text('utf-8')}\n~~~~\n"
