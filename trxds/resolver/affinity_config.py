"""`statefulSession` in a service config: session affinity for a target without a control plane (A55).

    "statefulSession": {"cookie": {"name": "session", "path": "/", "ttl": "3600s"}, "strict": false}

gRPC's document has no such field. The names are those of Envoy's StatefulSession and CookieBasedSessionState, which a
control plane configures, and of the field into which the C++ client translates them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from trxds.core.json_reader import JsonNode
from trxds.resources.cookie_affinity import CookieAffinity, find_name_problem, find_path_problem, find_ttl_problem

T = TypeVar("T")

FIELD = "statefulSession"
_SOME_NAME = "session"


def parse_affinity(node: JsonNode) -> CookieAffinity | None:
    """Read `statefulSession`, None if it is absent; problems are noted with their places, and defaults replace them."""
    if not node.has_object():
        return None
    cookie, strict = node.member("cookie"), node.member("strict").boolean(False)
    # Not "off", which it would be from a control plane: nobody writes the field for no session.
    if cookie.value is None:
        cookie.error('is missing; write for example {"name": "session", "path": "/", "ttl": "3600s"}')
    if not cookie.has_object():
        return None
    name, path, ttl = cookie.member("name"), cookie.member("path"), cookie.member("ttl")
    # A missing name is a problem of its own; a name of another type is one already.
    written_name = name.text(_SOME_NAME) if name.value is not None else ""
    return CookieAffinity(
        _checked(name, written_name, find_name_problem, _SOME_NAME),
        _checked(path, path.text("/"), find_path_problem, "/"),
        _checked(ttl, ttl.duration(0.0), find_ttl_problem, 0.0) or None,
        strict,
    )


def _checked(node: JsonNode, value: T, find_problem: Callable[[T], str], default: T) -> T:
    problem = find_problem(value)
    if problem:
        node.error(problem)
    return default if problem else value
