"""Rows of the load balancing tree: its nodes with their picks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trxds.lb.configs import OverrideHostConfig
from trxds.lb.policy_node_snapshot import NodeSnapshot

from .messages import NodeRow


def nodes(channel: str, tree: Sequence[NodeSnapshot], begun: Mapping[int, int]) -> Iterator[tuple[str, NodeRow]]:
    """Return the rows. `begun` has the number of calls that each host ever had, by its `id`."""
    children: dict[str, list[str]] = {each.path: [] for each in tree}
    for each in tree:
        if each.parent is not None:
            children[each.parent].append(f"{channel}/{each.path}")
    picks = _picks(tree, begun)
    for each in tree:
        yield (
            f"{channel}/{each.path}",
            {
                "channel": channel,
                "path": each.path,
                "policy": each.policy,
                "parent": None if each.parent is None else f"{channel}/{each.parent}",
                "state": each.state.name,
                "picks": picks[each.path],
                "children": children[each.path],
                "says": _says(each),
                "warm": each.warm,
            },
        )


def _picks(tree: Sequence[NodeSnapshot], begun: Mapping[int, int]) -> dict[str, int]:
    """Return the picks of each node. A host counts once for a node, however many nodes below it use the host."""
    hosts = {each.path: {id(host) for host in each.hosts.values() if id(host) in begun} for each in tree}
    for each in reversed(tree):
        if each.parent is not None:
            hosts[each.parent] |= hosts[each.path]
    return {path: sum(begun[host] for host in its) for path, its in hosts.items()}


def _says(seen: NodeSnapshot) -> str:
    """Return the node's remarks. override_host's own depend on a call, so its hosts in use are counted instead."""
    if seen.policy != OverrideHostConfig.policy:
        return seen.says
    return f"{len(seen.hosts)} host{'' if len(seen.hosts) == 1 else 's'} in use by sessions"
