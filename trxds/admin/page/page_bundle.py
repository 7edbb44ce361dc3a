"""The page as one document that contains its style and scripts and may load nothing else.

The parts are files in `assets/`. The content security policy has the hashes of these parts. So if a name from the state
stream could smuggle markup into the document, the browser would neither run nor draw it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from msgspec import Struct

STYLE = "style.css"
SCRIPTS = (
    "words.js",
    "programs.js",
    "call_stats.js",
    "model.js",
    "hosts.js",
    "diff.js",
    "route.js",
    "tree_layout.js",
    "chart_layout.js",
    "dom.js",
    "table.js",
    "views_state.js",
    "views_resources.js",
    "views_hosts.js",
    "views_events.js",
    "explain.js",
    "tree.js",
    "timeline.js",
    "feed.js",
    "page.js",
)


class PageBundle(Struct, frozen=True):
    body: bytes
    policy: str  # Content-Security-Policy

    @property
    def headers(self) -> dict[str, str]:
        return {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": self.policy}


def read_page_bundle() -> PageBundle:
    folder = files(__package__) / "assets"
    style = (folder / STYLE).read_text("utf-8")
    script = "\n".join((folder / name).read_text("utf-8") for name in SCRIPTS)
    return assemble((folder / "page.html").read_text("utf-8"), style, script)


def assemble(frame: str, style: str, script: str) -> PageBundle:
    """Return the document. `frame` has one <style> and one <script>, both empty."""
    for end, text in (("</style", style), ("</script", script), ("<!--", script)):
        if end in text.lower():
            raise ValueError(f"{end} in a part of the page would end it there")
    style, script = f"\n{style}", f'\n"use strict";\n{script}'
    body = frame.replace("<style></style>", f"<style>{style}</style>")
    body = body.replace("<script></script>", f"<script>{script}</script>")
    return PageBundle(body.encode(), _policy([style], [script]))


def _policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src {' '.join(map(_hash, styles))}",
            f"script-src {' '.join(map(_hash, scripts))}",
            "connect-src 'self'",
            "img-src data:",  # the icon in the tab
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            # A browser that knows these two refuses to make elements of text for any script.
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
