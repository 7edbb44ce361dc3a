"""Links that lead out of docs/, to a program or a source file, work in the site as they do in the repository.

A page may say `[the example](../examples/hello.py)`. The file becomes a page of the site, shown as code, and the
link leads there. A link to a file that is not there is left alone, and `--strict` makes an error of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parent.parent.parent
LANGUAGES = {".py": "python", ".md": "markdown", ".toml": "toml", ".proto": "protobuf", ".yaml": "yaml"}

_OUTWARD = re.compile(r"\]\(\.\./([\w./-]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File, InclusionLevel

    wanted = {path for page in files.documentation_pages() for path in outward(page.content_string)}
    for path in sorted(wanted):
        made = File.generated(config, page_of(path), content=shown(path), inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(made)
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    return inward(markdown)


def outward(text: str) -> set[str]:
    """The files outside docs/ that a page links to, from the root of the repository."""
    return {path for path in _OUTWARD.findall(text) if (ROOT / path).is_file()}


def inward(text: str) -> str:
    """The page with those links to the site's own pages."""
    found = outward(text)
    return _OUTWARD.sub(lambda link: f"]({page_of(link[1])})" if link[1] in found else link[0], text)


def page_of(path: str) -> str:
    return f"source/{path}.md"


def shown(path: str) -> str:
    file = ROOT / path
    language = LANGUAGES.get(file.suffix, "text")
    return f"# {path}\n\n~~~~ {language}\n{file.read_text('utf-8')}\n~~~~\n"
