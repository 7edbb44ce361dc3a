"""What changes in a random history: endpoints, clusters, routes, the listener, mistakes and their repair, removal and
return, hosts that die and come back, the control planes, and what topics have beside.
"""

from __future__ import annotations

from typing import Any

from .random_history import (
    ALL_HOSTS,
    HEALTH,
    HOSTS,
    PATHS,
    SERVICE,
    SPARES,
    STATUSES,
    TABLES,
    TOPS,
    Aggregate,
    Key,
    Leaf,
    World,
)


def change(world: World) -> list[str]:
    """Change the world, and say how. Both clients must have seen all changes before."""
    world.steps += 1
    world.removed_clusters = {name for name in world.removed_clusters if ("CDS", name) in world.gone | world.bad.keys()}
    world.long_gone = set(world.gone) if world.planes == ("first",) and world.planes_up else set()
    for role in reversed(world.planes):
        goes, returns = _odds(world, role)
        if world.draw.random() < (goes if role in world.planes_up else returns):
            world.planes_up ^= {role}
            return [f"{role} control plane {'up' if role in world.planes_up else 'down'}"]
    of_topics = [change for topic in world.topics for change in topic.changes()]
    return _some(world, [*_steady(world), *of_topics, _spoil, _spoil, _remove, _remove])


def _odds(world: World, role: str) -> tuple[float, float]:
    """How likely a control plane goes, and returns."""
    if "fallback" in world.planes and role == world.before_fallback:
        return 0.2, 0.3
    return (0.05, 1) if role == "first" else (0.15, 0.4)


def change_more(world: World) -> list[str]:
    """Change it again at once: by what makes no difference for what a client ends up with if it misses a version."""
    return _some(world, [*_steady(world), *[change for topic in world.topics for change in topic.changes_at_once()]])


def _some(world: World, kinds: list[Any]) -> list[str]:
    done: list[str] = []
    while not done:
        done = [said for _ in range(world.draw.choice([1, 1, 1, 2, 3])) if (said := world.draw.choice(kinds)(world))]
    return done


def _steady(world: World) -> list[Any]:
    kinds = [*[_edit_endpoints] * 8, *[_edit_cluster] * 3, *[_edit_routes] * 4, *[_edit_listener] * 2, *[_host] * 6]
    # Soon, because a mistake in the listener hides all other changes.
    return [*kinds, *[_repair] * (4 * len(world.bad)), *[_restore] * (4 * len(world.gone))]


def _edit_endpoints(world: World) -> str:
    draw, service = world.draw, world.draw.choice(world.services_in_use)
    places = world.endpoints[service]
    what = draw.choice(["new", "add", "add", "swap", "empty", *["remove", "move", "health", "spare", "fail over"] * 2])
    host = draw.choice(sorted(places)) if places else ""
    if what == "add":
        places[draw.choice(HOSTS)] = world.draw_place()
    elif what == "new" or not host:
        places = world.draw_endpoints()
    elif what == "remove":
        del places[host]
    elif what == "move":
        places[host] = world.draw_place()
    elif what == "health":
        places[host] = places[host]._replace(health=draw.choice(HEALTH))
    elif what == "spare":
        spare = draw.choice(["", *SPARES])
        world.spares = {key: each for key, each in world.spares.items() if each != spare and key != (service, host)}
        world.spares |= {(service, host): spare} if spare else {}
        return f"EDS {service}: {host} has also {spare or 'no other address'}"
    elif what == "swap":
        places = {host: place._replace(priority=2 - place.priority) for host, place in places.items()}
    elif what == "fail over":
        first = min(place.priority for place in places.values())
        places = {host: place for host, place in places.items() if place.priority != first}
    elif what == "empty":
        places = {}
    world.endpoints[service] = places
    return f"EDS {service}: {what}, { ({host: tuple(place) for host, place in places.items()}) }"


def _edit_cluster(world: World) -> str:
    name = world.draw.choice([name for name in world.clusters_in_use if not name.endswith("3")])
    old = world.clusters[name]
    if isinstance(old, Aggregate):
        world.clusters[name] = world.draw_aggregate(name)
    elif world.draw.random() < 0.5:
        new = world.draw_leaf(name)
        is_kept = any(topic.keeps_services for topic in world.topics)
        world.clusters[name] = new._replace(service=old.service, dns_host=old.dns_host) if is_kept else new
    else:
        world.clusters[name] = old._replace(statuses=world.draw.choice(STATUSES))
    return f"CDS {world.clusters[name]}"


def _edit_routes(world: World) -> str:
    draw = world.draw
    table, path = draw.choice([world.table] * 4 + list(TABLES)), draw.choice(PATHS)
    what = draw.choice(["action"] * 8 + ["remove", *["filter"] * world.peer.has_sessions])
    if what == "remove":
        world.tables[table].pop(path, None)
    elif what == "filter":
        world.unfiltered ^= {(table, path)}
    else:
        world.tables[table][path] = world.draw_action()
    return f"RDS {table}: {what} {path} {world.tables[table].get(path)}"


def _edit_listener(world: World) -> str:
    what = world.draw.choice(["table", "table", "inline", *["filter", "cookie"] * world.peer.has_sessions])
    if what == "table":
        world.table = next(table for table in TABLES if table != world.table)
    elif what == "inline" and ("RDS", world.table) not in world.bad:
        world.inline = not world.inline
    elif what == "filter":
        world.filtered = not world.filtered
    elif what == "cookie":
        world.cookie = "other" if world.cookie == "session" else "session"
    return f"LDS {what}: {world.table} {world.cookie}, {world.inline = }, {world.filtered = }"


def _draw_key(world: World) -> Key | None:
    # What is let go while they are in error may not come back, if its server is down by then.
    lets_go = len(world.planes) > 1 and not world.peer.watches_clusters_without_routes
    of_routes = [] if lets_go or any(topic.keeps_routes for topic in world.topics) else ["LDS", "RDS"]
    of_clusters = [] if any(topic.keeps_clusters for topic in world.topics) else ["CDS", "CDS", "CDS"]
    kind = world.draw.choice([*of_routes, *of_clusters, "EDS", "EDS"])
    names = {"LDS": [SERVICE], "RDS": [world.table], "CDS": world.clusters_in_use, "EDS": world.services_in_use}[kind]
    present = [name for name in names if (kind, name) not in world.gone]
    return (kind, world.draw.choice(present)) if present else None


def _spoil(world: World) -> str:
    if key := _draw_key(world):
        world.bad[key] = world.draw.choice([0, 0, 1, 1, 2])
        return f"spoil {key} {world.bad[key]}"
    return ""


def _repair(world: World) -> str:
    if world.bad:
        key = world.draw.choice(sorted(world.bad))
        del world.bad[key]
        return f"repair {key}"
    return ""


def _remove(world: World) -> str:
    if key := _draw_key(world):
        world.gone.add(key)
        world.removed_clusters |= {key[1]} if key[0] == "CDS" and world.mode == "plain" else set()
        return f"remove {key}"
    return ""


def _restore(world: World) -> str:
    """Bring a resource back, a cluster perhaps with another type."""
    if not world.gone:
        return ""
    key = kind, name = world.draw.choice(sorted(world.gone))
    world.gone.remove(key)
    forgotten = key in world.long_gone and world.mode in ("plain", "A88 fail")
    if kind == "CDS" and name in TOPS and forgotten and world.draw.random() < 0.5:
        is_leaf = isinstance(world.clusters[name], Leaf)
        world.clusters[name] = world.draw_aggregate(name) if is_leaf else world.draw_leaf(name)
    return f"restore {key} {world.clusters[name] if kind == 'CDS' else ''}"


def _host(world: World) -> str:
    host = world.draw.choice(ALL_HOSTS)
    if host in world.up and len(world.up) < 6:
        return ""
    world.up ^= {host}
    world.silent -= {host}
    return f"{host} {'up' if host in world.up else 'down'}"
