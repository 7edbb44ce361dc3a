"""Each cookie, or header, of a session filter names one host of the session (A55)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from . import cookie


class CookieKey(NamedTuple):
    """The name and path by which the cookies of a session differ.

    `path` is empty for a session header, and for a cookie without a path: requests of every path carry these.
    """

    name: str
    path: str

    def matches(self, path: str) -> bool:
        """Return whether requests to that path have the cookie, or session header."""
        return cookie.path_matches(self.path, path)


class SessionHost(Struct, frozen=True):
    """The host and the cluster that a cookie names.

    For a target without a control plane `cluster` is the target. It is empty if it is not known: session headers do not
    name it, so an imported session by header learns it at its first call.
    """

    host: str  # ip:port, the first if the endpoint has several addresses, or unix:PATH
    cluster: str


def hosts_of(cookies: Iterable[tuple[CookieKey, str]], cluster: str) -> Mapping[CookieKey, SessionHost]:
    """Read the hosts from cookies' values; a cookie that is no session's, an application's own, is left out.

    `cluster` is the one to which the session's last host belongs: a cookie may write its name in other forms (A60).
    """
    hosts = {}
    for key, value in cookies:
        held = cookie.decode_hosts(value)
        if held is not None:
            hosts[key] = SessionHost(held.hosts[0], cluster if cluster in held.clusters else held.cluster)
    return hosts
