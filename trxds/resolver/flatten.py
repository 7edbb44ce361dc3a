"""An aggregate of aggregates becomes one list of clusters, the most preferred first (A37, A74).

The walk is depth-first. A cluster that comes up again is skipped, so its first position counts, and a loop ends.
"""

from __future__ import annotations

from collections.abc import Callable

MAX_DEPTH = 16  # levels; the root is at 0


def flatten(root: str, parts_of: Callable[[str], tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """Return the clusters under `root` that are no aggregates; None if any is too deep.

    `parts_of` returns the parts of an aggregate, and None for any other cluster.
    """
    leaves: list[str] = []
    seen: set[str] = set()  # of this root alone: another root may have the same leaf
    todo = [(root, 0)]
    while todo:
        name, depth = todo.pop()
        # A37: a branch that is too deep fails the whole root, not that branch alone.
        if depth == MAX_DEPTH:
            return None
        if name in seen:
            continue
        seen.add(name)
        parts = parts_of(name)
        if parts is None:
            leaves.append(name)
        else:
            # A37: depth first, in the order of each list; reversed, because the stack returns the last one first.
            todo.extend((part, depth + 1) for part in reversed(parts))
    return tuple(leaves)
