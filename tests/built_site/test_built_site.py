"""The site that `make docs` has built, in a browser: search finds things, and nothing comes from outside.

`make docs` runs these tests after it has built the site; `TRXDS_SITE` names another folder.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support import chromium
from support.chromium import open_tab

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent.parent
SITE = Path(os.environ.get("TRXDS_SITE", ROOT / "build" / "site"))


class Files(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if not (SITE / "index.html").exists():
        pytest.skip(f"there is no site in {SITE}; `make docs` builds it")
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(SITE))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[str]:
    with chromium.running(chromium.program()) as devtools:
        yield devtools


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("circuit breaker", "glossary/"),
        ("NACK", "explanation/xds/"),
        ("open_channel", "reference/api/channel/"),
        ("keepalive_time", "errors/"),
        ("override_host_status", "sessions/"),
        ("grpc.client.attempt.duration", "reference/metrics/"),
    ],
)
async def test_the_search_finds_the_page(words: str, page: str, address: str, browser: str) -> None:
    async with open_tab(browser, address) as tab:
        await tab.run("document.querySelector('.md-search__input').focus()")
        await tab.call("Input.insertText", text=words)
        links = "[...document.querySelectorAll('.md-search-result__link')].map((link) => link.href)"
        await tab.until(f"{links}.length > 0")
        found = [link.removeprefix(address).partition("?")[0].partition("#")[0] for link in await tab.run(links)]
        assert page in found[:10]


@pytest.mark.parametrize("page", ["", "tutorial/sticky-session/", "reference/api/channel/", "explanation/xds/"])
async def test_a_page_needs_nothing_from_outside(page: str, address: str, browser: str) -> None:
    async with open_tab(browser, address + page) as tab:
        await tab.until("document.querySelector('h1') !== null")
        assert [request for request in tab.requests if not request.startswith((address, "data:", "blob:"))] == []
        assert tab.problems == []
