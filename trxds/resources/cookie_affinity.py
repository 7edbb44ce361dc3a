"""Session affinity by a cookie, for targets without a control plane (A55): the program configures the filter itself.

A program gives it to `open_channel`, or writes it into the service config (`resolver/service_config.py`). Both have
the same rules. They are stricter than those for a control plane's filter, because here the mistake is the program's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .stateful_session import CookieConfig, StatefulSessionConfig

MAX_NAME_SIZE = 256  # characters; a cookie jar keeps 4096 of a name with its value
MAX_PATH_SIZE = 1024  # characters; cookie jars ignore a longer attribute
MAX_TTL = 315_576_000_000  # seconds, of a protobuf Duration

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # a token (RFC 6265 §4.1.1)
_PATH = re.compile(r"/[!-:<-~]*")  # without ";", which ends an attribute, and without blanks, which no method has


@dataclass(frozen=True, slots=True)
class CookieAffinity:
    """Sessions of a target without a control plane stay on one host, which a cookie names (A55).

    `name` is that of the cookie. `path` says which calls take part: `/` is every call, `/shop.Cart` those of a service,
    `/shop.Cart/Add` those of a method. The cookie lasts for `ttl` whole seconds from when it was set; with None or 0 it
    lasts as long as the session. With `strict` a call whose session has no usable host fails with
    UNAVAILABLE, and goes to no other host. Raises `TypeError` or `ValueError` for a value that makes no cookie.
    """

    name: str
    path: str = "/"
    ttl: float | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        _check_type("name", self.name, str, "a text")
        _check_type("path", self.path, str, "a text")
        _check_type("strict", self.strict, bool, "True or False")
        if self.ttl is not None and (isinstance(self.ttl, bool) or not isinstance(self.ttl, int | float)):
            raise TypeError(f"ttl is a number of seconds, or None, not {self.ttl!r}")
        for field, problem in (
            ("name", find_name_problem(self.name)),
            ("path", find_path_problem(self.path)),
            ("ttl", find_ttl_problem(self.ttl or 0.0)),
        ):
            if problem:
                raise ValueError(f"{field} {problem}")

    @property
    def filter_config(self) -> StatefulSessionConfig:
        """Return the configuration of the stateful session filter."""
        cookie = CookieConfig(self.name, self.path, float(self.ttl or 0), names_cluster=False)
        return StatefulSessionConfig(cookie, self.strict)


def find_name_problem(name: str) -> str:
    """Return why this is no name of a cookie; empty if it is one."""
    if not name:
        return 'is missing; write the cookie\'s name, for example "session"'
    if len(name) > MAX_NAME_SIZE:
        return f"has {len(name)} characters; write at most {MAX_NAME_SIZE}"
    if not _NAME.fullmatch(name):
        return f"is {name!r}; a cookie's name has letters, digits and !#$%&'*+-.^_`|~ only"
    return ""


def find_path_problem(path: str) -> str:
    """Return why this is no path of a cookie; empty if it is one."""
    if len(path) > MAX_PATH_SIZE:
        return f"has {len(path)} characters; write at most {MAX_PATH_SIZE}"
    if not _PATH.fullmatch(path):
        return f'is {path!r}; write "/" for all methods, or the beginning of some, as "/shop.Cart"'
    return ""


def find_ttl_problem(ttl: float) -> str:
    """Return why this is no lifetime of a cookie in seconds; empty if it is one."""
    # Max-Age has whole seconds, so a cookie of less than one would have expired before its first use.
    if not (ttl == 0 or 1 <= ttl <= MAX_TTL) or ttl % 1:
        limits = f"whole seconds from 1 s to {MAX_TTL} s"
        return f"is {ttl:.12g} s; it must be 0, which lasts as long as the session, or {limits}"
    return ""


def _check_type(field: str, value: object, kind: type, noun: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{field} is {noun}, not {value!r}")
