"""The pages of a program's state, one for each command, as lines for people and as rows for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from trxds.admin.state_stream.messages import Row, State
from trxds.core.policy_names import short_policy_name

from .words import age, coloured, columns, counted

Rows = Iterator[Mapping[str, Any]]

_SHOWN = 40  # endpoints
_TROUBLE = frozenset({"nacked", "does_not_exist", "received_error", "timeout"})

REASONS = {
    "no_cookie": "its call had no cookie, or one that was too old",
    "cluster_mismatch": "the route does not have its cluster any more",
    "unknown_host": "the cluster does not have the host any more, or it is DRAINING and may not be used",
    "status_not_allowed": "the host's health is none of override_host_status",
    "not_ready": "the host could not be reached",
    "requested": "the program moved it",
    "released": "the program let it choose anew",
    "rebalanced": "the host had more than its fair share of sessions",
}


class Page(Struct, frozen=True):
    """`sections` are those of the feed that it needs; `lines` are for people, by the time now, `rows` for programs."""

    sections: tuple[str, ...]
    lines: Callable[[State, float], Iterator[str]]
    rows: Callable[[State], Rows]
    good: Callable[[State], bool]


def rows_of(*sections: str) -> Callable[[State], Rows]:
    def rows(state: State) -> Rows:
        for section in sections:
            for key, row in state[section].items():
                yield {"section": section, "key": key, "channel": key, **row}

    return rows


def _always(state: State) -> bool:
    return True


# -- trxds lb


def tree_lines(state: State, now: float, *, everything: bool = False) -> Iterator[str]:
    for channel, row in state["channels"].items():
        yield from _channel_lines(channel, row)
        root = _root(state["nodes"], channel)
        if root:
            head = ("STATE", "PICKS", "POLICY", "SEES")
            yield from columns([head, *_nodes(state["nodes"], root, 0)])
        yield from _endpoints([each for each in state["endpoints"].values() if each["channel"] == channel], everything)


def _channel_lines(channel: str, row: Row) -> Iterator[str]:
    calls = f"{counted(row['calls'], 'call')}, {row['failed']} failed, {row['open']} open"
    yield f"{_named(channel, row)} {coloured(row['state'])}: {calls}"
    if row["error"]:
        yield f"  {row['error']}"


def _named(channel: str, row: Row) -> str:
    return channel if channel == row["target"] else f"{channel} ({row['target']})"


def _root(nodes: Mapping[str, Row], channel: str) -> str:
    """Return the key of the channel's root policy; empty while the channel has no tree."""
    return next((key for key, row in nodes.items() if row["parent"] is None and row["channel"] == channel), "")


def _nodes(nodes: Mapping[str, Row], key: str, depth: int) -> Iterator[Sequence[str]]:
    row = nodes[key]
    parent = row["parent"]
    name = row["path"] if parent is None else key.removeprefix(f"{parent}/")
    policy = short_policy_name(row["policy"])
    shown = f"{'  ' * depth}{name if name == policy else f'{name}: {policy}'}"
    says = f"{'(kept warm) ' if row['warm'] else ''}{row['says']}"
    yield row["state"], str(row["picks"]), shown, says
    for child in row["children"]:
        if child in nodes:  # it may have come a moment later than its parent was looked at
            yield from _nodes(nodes, child, depth + 1)


def _endpoints(rows: Sequence[Row], everything: bool) -> Iterator[str]:
    if not rows:
        return
    yield ""
    shown = rows if everything else rows[:_SHOWN]
    head = ("ENDPOINT", "CLUSTER", "PRIORITY", "LOCALITY", "HEALTH", "STATE", "WEIGHT", "SESSIONS")
    yield from columns([head, *map(_endpoint, shown)])
    if len(shown) < len(rows):
        yield f"and {len(rows) - len(shown)} more; --all shows them"


def _endpoint(row: Row) -> Sequence[str]:
    state = "EJECTED" if row["ejected"] else row["state"] or "-"
    return (
        row["address"],
        row["cluster"],
        str(row["priority"]),
        row["locality"] or "-",
        row["health"],
        state,
        str(row["weight"]),
        str(row["sessions"]),
    )


def _serves(state: State) -> bool:
    return not any(_problems(state, channel) for channel in state["channels"])


# -- trxds sessions


def session_lines(state: State, now: float) -> Iterator[str]:
    sessions = state["sessions"]
    if sessions:
        head = ("SESSION", "HOST", "CLUSTER", "AGE", "CALLS", "MOVES", "LAST MOVE")
        yield from columns([head, *(_session(key, row, now) for key, row in sessions.items())])
    else:
        yield "no sessions are open"
    yield from _not_sticky(state)


def _not_sticky(state: State) -> Iterator[str]:
    for channel, row in state["channels"].items():
        yield from (f"warning: {channel}: {each}" for each in row.get("warnings", ()) if "not sticky" in each)


_Host: TypeAlias = tuple[str, str, str]  # channel, cluster, first address


def host_lines(state: State, now: float) -> Iterator[str]:
    """The sessions of each host, its share of those of its cluster, and the share that would be fair."""
    endpoints = _Endpoints(state["endpoints"].values())
    on_hosts = (row for row in state["sessions"].values() if row["host"])
    counts = Counter(endpoints.host(row["channel"], row["cluster"], row["host"]) for row in on_hosts)
    if not counts:
        yield "no sessions are on any host"
        yield from _not_sticky(state)
        return
    totals: Counter[tuple[str, str]] = Counter()
    for (channel, cluster, _), count in counts.items():
        totals[channel, cluster] += count
    hosts = counts.keys() | {host for host in endpoints.hosts if host[:2] in totals}
    lines: list[tuple[str, ...]] = [("HOST", "CHANNEL", "CLUSTER", "HEALTH", "STATE", "SESSIONS", "SHARE", "FAIR")]
    lines += [_host_line(host, endpoints.find(*host), counts[host], totals[host[:2]]) for host in sorted(hosts)]
    yield from columns(lines)
    yield from _not_sticky(state)


def _host_line(host: _Host, row: Row | None, count: int, total: int) -> tuple[str, ...]:
    channel, cluster, address = host
    numbers = str(count), f"{count / total:.0%}"
    if row is None:
        return (address, channel, cluster, "removed", "-", *numbers, "-")
    # A program with an older trxds has neither; the endpoints of an aggregate have their share of its clusters only.
    fair = row.get("fair_share") if row["cluster"] == cluster else None
    state = row["state"] or "not connected"
    addresses = ", ".join(row.get("addresses", (address,)))
    return (addresses, channel, cluster, row["health"], state, *numbers, "-" if fair is None else f"{fair:.0%}")


class _Endpoints:
    """The rows of endpoints by each of their addresses: a session may be on any (A61)."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.hosts: list[_Host] = []
        self._rows: dict[tuple[str, str, str], Row] = {}
        for row in rows:
            self.hosts.append((row["channel"], row["cluster"], row["address"]))
            for address in row.get("addresses", (row["address"],)):
                self._rows[row["channel"], row["cluster"], address] = row
                self._rows.setdefault((row["channel"], "", address), row)

    def find(self, channel: str, cluster: str, address: str) -> Row | None:
        """Return the endpoint. Sessions of an aggregate name it, and endpoints one of its clusters."""
        return self._rows.get((channel, cluster, address)) or self._rows.get((channel, "", address))

    def host(self, channel: str, cluster: str, address: str) -> _Host:
        """Return the host of a session by its first address; a removed one by the session's."""
        row = self.find(channel, cluster, address)
        return channel, cluster, address if row is None else row["address"]


def _session(key: str, row: Row, now: float) -> Sequence[str]:
    move = row["last_move"]
    last = "-"
    if move is not None:
        words = ", ".join(filter(None, (REASONS.get(move["reason"], ""), move.get("change", ""))))
        last = f"{age(move['time'], now)} ago from {move['from']}: {move['reason']}{words and f' ({words})'}"
    return (
        key,
        row["host"] or "-",
        row["cluster"] or "-",
        age(row["since"], now),
        str(row["calls"]),
        str(row["moves"]),
        last,
    )


# -- trxds xds


def resource_lines(state: State, now: float) -> Iterator[str]:
    resources = state["resources"]
    if not resources:
        yield "no resources: no channel here has a control plane"
        return
    head = ("TYPE", "NAME", "STATE", "VERSION", "AGE", "SERVER", "ERROR")
    yield from columns([head, *(_resource(row, now) for row in resources.values())])


def _resource(row: Row, now: float) -> Sequence[str]:
    return (
        row["type"],
        row["name"],
        row["state"],
        row["version"] or "-",
        age(row["since"], now),
        row["server"] or "-",
        row["error"] or "-",
    )


def _all_are_well(state: State) -> bool:
    return not any(row["state"] in _TROUBLE or row["error"] for row in state["resources"].values())


# -- trxds ruok


def health_lines(state: State, now: float) -> Iterator[str]:
    for channel, row in state["channels"].items():
        problems = _problems(state, channel)
        yield f"{_named(channel, row)}: {'ok' if not problems else 'NOT OK'}, {coloured(row['state'])}"
        yield from (f"  {problem}" for problem in problems)
        yield from (f"  warning: {warning}" for warning in _warnings(state, channel))


def health_rows(state: State) -> Rows:
    for channel, row in state["channels"].items():
        problems = _problems(state, channel)
        yield {
            "channel": channel,
            "ok": not problems,
            "state": row["state"],
            "problems": problems,
            "warnings": list(_warnings(state, channel)),
        }


def _problems(state: State, channel: str) -> list[str]:
    """Return why calls would fail: the channel's own reason, or else those of its clusters."""
    row = state["channels"][channel]
    match row["state"]:
        case "CONNECTING":
            return ["calls wait for a host, or for a configuration; `trxds xds` and `trxds lb` say for which"]
        case "SHUTDOWN":
            return ["the channel is closed"]
    if row["error"]:
        return [row["error"]]
    # Without a control plane the root's child is no cluster, but another policy of the same hosts.
    has_clusters = row["target"].lower().startswith("xds:")
    failing = _failing(state["nodes"], _root(state["nodes"], channel))
    return [f"{_cluster(node) if has_clusters else 'all calls'}: {node['says']}" for node in failing]


def _failing(nodes: Mapping[str, Row], key: str) -> Iterator[Row]:
    """The clusters that fail; where there are none, the root if it does."""
    root = nodes.get(key)
    if root is None:
        return
    clusters = [nodes[child] for child in root["children"] if child in nodes and not nodes[child]["warm"]]
    for node in clusters or [root]:
        if node["state"] == "TRANSIENT_FAILURE":
            yield _deepest(nodes, node)


def _deepest(nodes: Mapping[str, Row], node: Row) -> Row:
    """Return the node that knows the reason best: the one below the policies that only pass it on."""
    below = [nodes[child] for child in node["children"] if child in nodes]
    failing = [each for each in below if each["state"] == "TRANSIENT_FAILURE" and not each["warm"]]
    return _deepest(nodes, failing[-1]) if failing else node


def _cluster(node: Row) -> str:
    """`cluster_manager/cart/outlier_detection/...` is below the cluster cart."""
    parts = node["path"].split("/")
    return f"cluster {parts[1]}" if len(parts) > 1 else "all calls"


def _warnings(state: State, channel: str) -> Iterator[str]:
    yield from state["channels"][channel].get("warnings", ())  # a program with an older trxds says none
    for row in state["resources"].values():
        if row["channel"] == channel and row["state"] in _TROUBLE:
            kept = f"; version {row['version']} stays in use" if row["version"] else ""
            yield f'{row["type"]} resource "{row["name"]}" is {row["state"]}: {row["error"]}{kept}'


LB = Page(("channels", "nodes", "endpoints"), tree_lines, rows_of("channels", "nodes", "endpoints"), _serves)
SESSIONS = Page(("channels", "sessions"), session_lines, rows_of("sessions"), _always)
HOSTS = Page(("channels", "sessions", "endpoints"), host_lines, rows_of("sessions", "endpoints"), _always)
XDS = Page(("resources",), resource_lines, rows_of("resources"), _all_are_well)
RUOK = Page(("channels", "nodes", "resources"), health_lines, health_rows, _serves)
