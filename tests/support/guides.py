"""The how-to guides: their blocks, by language and in order."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "docs" / "how-to"
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def text(guide: str) -> str:
    """The page of that name, which has no suffix."""
    return (FOLDER / f"{guide}.md").read_text("utf-8")


def blocks(guide: str, language: str) -> list[str]:
    """What is fenced as that language there, without indentation."""
    found = _BLOCK.findall(text(guide))
    return [textwrap.dedent(block) for _, its, block in found if its == language]


def documents(guide: str) -> list[list[dict[str, Any]]]:
    """The YAML documents of each block, of all its YAML blocks."""
    return [list(yaml.safe_load_all(block)) for block in blocks(guide, "yaml")]


def python_value(guide: str, name: str) -> Any:
    """The value of a constant in the guide's first Python block."""
    for node in ast.parse(blocks(guide, "python")[0]).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise LookupError(name)
