"""What the source itself tells of its structure: files, imports, classes, private attributes, comments.

Everything is read from the text by `ast` and `tokenize`; nothing of the package is imported or run.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent.parent / "trxds"
FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))

Module = str
"""A dotted name, "trxds.transport.pool"."""


@cache
def text_of(path: Path) -> str:
    """The text of a file of the package."""
    return (PACKAGE / path).read_text("utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file of the package."""
    return ast.parse(text_of(path))


def module_of(path: Path) -> Module:
    """The dotted name of a file; a package's is that of its `__init__.py`."""
    parts = path.with_suffix("").parts
    return ".".join(("trxds", *(parts[:-1] if parts[-1] == "__init__" else parts)))


MODULES: Mapping[Module, Path] = {module_of(path): path for path in FILES}


# -- imports


def imports_of(path: Path) -> set[Module]:
    """The modules of the package that a file imports, wherever in the file, for types or not."""
    package = ("trxds", *path.parent.parts)
    found: set[Module] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join((*above, *([node.module] if node.module else [])))
            for alias in node.names:
                dotted = f"{origin}.{alias.name}"
                found.add(dotted if dotted in MODULES else origin)
    return (found & MODULES.keys()) - {module_of(path)}


def import_circles() -> list[list[Module]]:
    """Groups of files each of which imports, by some way, every other of its group; the largest first."""
    graph = {module: imports_of(path) for module, path in MODULES.items()}
    return sorted((sorted(group) for group in _components(graph) if len(group) > 1), key=lambda g: (-len(g), g))


def _components(graph: Mapping[Module, set[Module]]) -> Iterator[list[Module]]:
    """The strongly connected components (Tarjan)."""
    index: dict[Module, int] = {}
    low: dict[Module, int] = {}
    stack: list[Module] = []
    done: set[Module] = set()

    def visit(module: Module) -> Iterator[list[Module]]:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in index:
                yield from visit(other)
                low[module] = min(low[module], low[other])
            elif other not in done:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            done.update(group)
            yield group

    for module in sorted(graph):
        if module not in index:
            yield from visit(module)


# -- objects


@dataclass(frozen=True)
class ClassSize:
    """What an instance has, with all that its base classes of this package give it."""

    module: Module
    name: str
    methods: int  # properties, class and static methods are methods too; dunder methods are not, but `__init__` is
    attributes: int  # assigned on `self` or declared in the body

    def __str__(self) -> str:
        return f"{self.module}.{self.name}: {self.methods} methods, {self.attributes} attributes"


def class_sizes() -> list[ClassSize]:
    """Every class of the package, the largest first."""
    classes = {(module, node.name): node for module, path in MODULES.items() for node in _classes(path)}
    found = []
    for module, name in classes:
        lineage = list(_lineage(module, name, classes))
        methods = {each for node in lineage for each in _methods(node)}
        attributes = {each for node in lineage for each in _attributes(node)} - methods
        found.append(ClassSize(module, name, len(methods), len(attributes)))
    return sorted(found, key=lambda each: (-max(each.methods / 25, each.attributes / 15), each.module, each.name))


def _classes(path: Path) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef))


def _lineage(module: Module, name: str, classes: Mapping[tuple[Module, str], ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """The class and its bases, as far as they are of this package and are not Protocols."""
    node = classes.get((module, name))
    if node is None or _is_protocol(node):
        return
    yield node
    names = _names_imported(MODULES[module])
    for base in node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(plain, ast.Name):
            yield from _lineage(*names.get(plain.id, (module, plain.id)), classes)
        elif isinstance(plain, ast.Attribute) and isinstance(plain.value, ast.Name):
            origin, last = names.get(plain.value.id, ("", ""))
            yield from _lineage(f"{origin}.{last}", plain.attr, classes)


def _is_protocol(node: ast.ClassDef) -> bool:
    plain = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in plain)


def _names_imported(path: Path) -> dict[str, tuple[Module, str]]:
    package = ("trxds", *path.parent.parts)
    found = {}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join((*above, *([node.module] if node.module else [])))
            found |= {alias.asname or alias.name: (origin, alias.name) for alias in node.names}
    return found


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _methods(node: ast.ClassDef) -> set[str]:
    names = {each.name for each in node.body if isinstance(each, _Function)}
    return {name for name in names if name == "__init__" or not (name.startswith("__") and name.endswith("__"))}


def _attributes(node: ast.ClassDef) -> set[str]:
    """Fields of a dataclass, and whatever a method assigns on its own object."""
    names: set[str] = set()
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and not _is_class_variable(each):
            names.add(each.target.id)
        elif isinstance(each, _Function):
            names |= {name for target in _targets(each) if (name := _own(target))}
    return names


def _is_class_variable(node: ast.AnnAssign) -> bool:
    return "ClassVar" in ast.unparse(node.annotation) or "Final" in ast.unparse(node.annotation)


def _targets(function: _Function) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from target.elts if isinstance(target, ast.Tuple) else [target]
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            yield node.target


def _own(target: ast.expr) -> str:
    is_own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    return target.attr if is_own and isinstance(target, ast.Attribute) else ""


# -- private attributes


def definitions(path: Path) -> set[str]:
    """Return the names that a file defines: classes, functions, attributes that are set, fields and constants."""
    found = set()
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    constants = (node for node in tree_of(path).body if isinstance(node, ast.Assign))
    return found | {target.id for node in constants for target in node.targets if isinstance(target, ast.Name)}


def names(path: Path) -> set[str]:
    """Return every name that a file defines or binds: also local variables and parameters."""
    bound = definitions(path)
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                bound.add(name)
    return bound


def private_reads() -> list[str]:
    """Uses of `other._name` in a file in which nothing has that name: "transport/pool.py:12: host._lease"."""
    return [each for path in FILES for each in _private_reads(path)]


def _private_reads(path: Path) -> Iterator[str]:
    tree = tree_of(path)
    nodes = list(ast.walk(tree))
    names = {node.name for node in nodes if isinstance(node, _Function | ast.ClassDef)}
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            names |= _attributes(node) | _slots(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    for node in nodes:
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
            continue
        if node.attr not in names and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
            yield f"{path.as_posix()}:{node.lineno}: {ast.unparse(node)}"


def _slots(node: ast.ClassDef) -> set[str]:
    """The names in `__slots__`."""
    return {
        constant.value
        for each in node.body
        if isinstance(each, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__slots__" for t in each.targets)
        for constant in ast.walk(each.value)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    }


# -- lines


@dataclass(frozen=True)
class Lines:
    """How many lines of a text are code and how many are a comment; blank lines and docstrings are neither."""

    code: int
    comments: int

    @property
    def comment_share(self) -> float:
        """Comments for each line of code."""
        return self.comments / self.code if self.code else 0.0


def lines_of(paths: Iterable[Path]) -> Lines:
    """Of all these files together. A comment behind code does not count: the line is code."""
    counts = [_count(path) for path in paths]
    return Lines(sum(code for code, _ in counts), sum(comments for _, comments in counts))


_NO_CODE = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})
# A mark for a tool is no comment.
_MARKS = ("# type:", "# noqa", "# fmt:", "#!")


def _count(path: Path) -> tuple[int, int]:
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text_of(path)).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(_MARKS):
            comments.add(token.start[0])
        elif token.type not in _NO_CODE and token.type != tokenize.ENDMARKER:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - _docstring_lines(tree_of(path))), len(comments - code)


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, _Function | ast.ClassDef | ast.Module) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            assert first.end_lineno is not None
            lines.update(range(first.lineno, first.end_lineno + 1))
    return lines


def by_room(paths: Iterable[Path]) -> Mapping[str, list[Path]]:
    """Files by the first folder in the package; "" has those that lie beside the rooms."""
    rooms: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        rooms[path.parts[0] if len(path.parts) > 1 else ""].append(path)
    return rooms
