"""axe-core, which finds what keeps people with a keyboard or a screen reader out of a page. npm has it."""

import json
import os
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".peers/node/node_modules/axe-core/axe.min.js"
# WCAG 2.2 at the level AA, and what axe's makers hold to be good practice.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def script():
    """Its text. Without it the test is left out, and in CI it fails: there it has to be had."""
    if not SCRIPT.exists():
        missing = "axe-core is not installed; `make .peers/node/.ready` installs it where npm reaches its registry"
        pytest.fail(missing) if "CI" in os.environ else pytest.skip(missing)
    return SCRIPT.read_text("utf-8")


async def violations(tab):
    """What is wrong with the page as it is drawn now: the rule, the element, and what axe says."""
    found = await tab.run(
        f"axe.run({{runOnly: {json.dumps(RULES)}, resultTypes: ['violations']}}).then((told) =>"
        " told.violations.flatMap(({id, nodes}) => nodes.map((node) => [id, node.html, node.failureSummary])))"
    )
    return [tuple(each) for each in found]
