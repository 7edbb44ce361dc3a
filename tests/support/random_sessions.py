"""Random listeners with the session filter, and calls with random cookies, for two clients that must do the same.

Not drawn is a second session filter, with which grpcio's first one sets a cookie without a host (`docs/grfc-map.md`).
"""

import base64

from trxds.testing import resources as xds

from .random_mesh import DEAD, Case

_TYPES = "type.googleapis.com/envoy."


def sessions_case(draw, number, addresses):
    """A listener with the session filter, up to three clusters of random hosts, and calls with random cookies."""
    draw.is_wild = False
    names = [f"c{number}-{each}" for each in range(draw.choice([1, 1, 2, 3]))]
    rest = draw.sample(addresses, len(addresses))
    resources, homes = [], {}
    for name in names:
        hosts, rest = rest[:3], rest[3:]
        homes |= dict.fromkeys(hosts, name)
        resources += _session_cluster(draw, name, hosts)
    weights = {name: 0 for name in names} | {draw.choice(names): 1}
    cookies = draw.sample(["session", "s", "a.b", "S"], 2)
    route = xds.route(weights if len(names) > 1 or draw.chance(0.5) else names[0])
    routes = xds.routes(f"r-{number}", route)
    for scope in (routes["virtual_hosts"][0], route, *route["route"].get("weighted_clusters", {}).get("clusters", ())):
        if draw.chance(0.15):
            scope |= xds.filter_overrides(stateful_session=_override(draw, cookies))
    resources += [
        xds.listener(f"case-{number}", routes=f"r-{number}", filters=[_session_filter(draw, cookies)]),
        routes,
    ]
    paths = ["/a.B/C", "/a.B/Cx", "/a.Bx/C", "/x/y", "/x.y/z"]
    calls = [{"path": draw.choice(paths), "metadata": _cookies(draw, cookies, homes)} for _ in range(10)]
    return Case(f"case-{number}", resources, calls, times=9, warm=True)


def _session_filter(draw, cookies):
    path = draw.choice(["", "/", "/a.B", "/a.B/", "/x", "/a.B/C"])
    return xds.stateful_session(draw.choice(cookies), path=path, ttl=draw.choice([None, 0, 1, 120, 0.5, 1.5]))


def _override(draw, cookies):
    """Another cookie, or none."""
    state = _session_filter(draw, cookies)["typed_config"]["session_state"]
    off = draw.choice([{"disabled": True}, {}, {"stateful_session": {}}])
    made = {
        "@type": f"{_TYPES}extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute",
        **draw.choice([off, {"stateful_session": {"session_state": state}}]),
    }
    return {"@type": f"{_TYPES}config.route.v3.FilterConfig", "config": made} if draw.chance(0.2) else made


def _session_cluster(draw, name, hosts):
    """One host at least is HEALTHY. By round robin nine calls meet all that are, or one if there is no other."""
    statuses = [None, ["HEALTHY", "UNKNOWN", "DRAINING"], ["DRAINING"], ["HEALTHY"], ["UNKNOWN"], [], ["UNHEALTHY"]]
    states = ["HEALTHY"] * 5 + ["UNKNOWN", "DRAINING", "UNHEALTHY", "TIMEOUT", "DEGRADED"]
    health = {host: draw.choice(states) for host in hosts} | {hosts[0]: "HEALTHY"}
    localities = [xds.locality(*hosts, health=health)]
    if draw.chance(0.3):
        localities = [xds.locality(*hosts[:2], health=health), xds.locality(*hosts[2:], health=health, priority=1)]
    return xds.cluster(name, override_statuses=draw.choice(statuses)), xds.endpoints(name, *localities)


def _cookies(draw, cookies, homes):
    pairs = [f"{_cookie_name(draw, each)}={_cookie_value(draw, homes)}" for each in cookies if draw.chance(0.7)]
    if not pairs:
        return []
    form = draw.choice(["{}"] * 6 + ["a=b; {}", "{}; a=b", "x; {}", "a=b; {}; c"])
    return [("cookie", form.format("; ".join(pairs)))]


def _cookie_name(draw, cookie):
    return cookie if draw.chance(0.9) else draw.choice(["other", cookie.swapcase(), f"{cookie}x", f"${cookie}"])


def _cookie_value(draw, homes):
    host, other = draw.choice([*homes, DEAD]), draw.choice(list(homes))
    home = homes.get(host, "gone")
    text = draw.choice(
        [
            *[f"{host};{home}"] * 5,
            *(f"{host};gone", f"{host};", f"{host},{other};{home}", f"{host},{other}", host, f"{host};{home};x"),
            *(f";{home}", f"{host} ;{home}", f" {host};{home}", f"{host},;{home}", "nonsense", "[::1]:80;x", ""),
        ]
    )
    value = base64.b64encode(text.encode()).decode()
    return draw.choice([*[value] * 12, value.rstrip("="), host, "=", "!!!!", "//4="])
