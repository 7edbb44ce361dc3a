"""The stateful session filter: it pins a session to its host (A55).

gRPC supports cookies only. The session header and `strict` are Envoy's, and trxds supports them too.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from msgspec import Struct

from trxds.core.metadata import check, is_key

from . import protos
from .extension import Extension, extension
from .filter_config import FilterConfig, HttpFilterType
from .units import parse_optional_duration
from .validation_errors import ValidationErrors

_TAKEN_HEADERS = frozenset({"cookie", "set-cookie"})  # callers may send them, for what they are


class CookieConfig(Struct, frozen=True):
    """A cookie with the session. `path` "" is every path; `ttl` is in seconds, 0 makes a session cookie.

    `names_cluster`: the cookie has the host's cluster too (A60), which it needs only where routes choose clusters.
    """

    name: str
    path: str = ""
    ttl: float = 0.0
    names_cluster: bool = True

    def __str__(self) -> str:
        lasts = f"for {self.ttl:.12g} s" if self.ttl else "as long as its jar"
        return f"cookie {self.name!r} for {f'path {self.path}' if self.path else 'every path'}, {lasts}"


class HeaderConfig(Struct, frozen=True):
    """A header with the session; `name` is in lower case, as in metadata."""

    name: str

    def __str__(self) -> str:
        return f"header {self.name!r}"


SessionState: TypeAlias = CookieConfig | HeaderConfig


class StatefulSessionConfig(FilterConfig, frozen=True):
    """The configuration of the filter. Without a `state` it is off, until an override switches it on.

    With `strict` an RPC whose host cannot be used fails, and gets no other host.
    """

    config_type: ClassVar[str] = "envoy.extensions.filters.http.stateful_session.v3.StatefulSession"
    override_type: ClassVar[str] = "envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute"

    state: SessionState | None = None
    strict: bool = False

    def __str__(self) -> str:
        if self.state is None:
            return "off"
        return f"{self.state}{', strict: its host or none' if self.strict else ''}"


OFF = StatefulSessionConfig()


def _parse(config: Extension) -> StatefulSessionConfig | None:
    message = config.parse(protos.StatefulSession, "could not parse stateful session filter config")
    return _stateful_session(message, config.problems) if message is not None else None


def _parse_override(config: Extension) -> StatefulSessionConfig | None:
    """Parse an override, which replaces the whole configuration; without a session state it switches the filter off."""
    message = config.parse(protos.StatefulSessionPerRoute, "could not parse stateful session filter override config")
    if message is None:
        return None
    # Envoy rejects an override with neither field, and `disabled: false`; in the C++ client both mean off.
    if message.WhichOneof("override") != "stateful_session":
        return OFF
    return _stateful_session(message.stateful_session, config.problems.at("stateful_session"))


def _stateful_session(message: Any, problems: ValidationErrors) -> StatefulSessionConfig | None:
    if not message.HasField("session_state"):
        return OFF
    packed = extension(message.session_state, "typed_config", problems.at("session_state"))
    state = _session_state(packed) if packed is not None else None
    return StatefulSessionConfig(state, message.strict) if state is not None else None


def _session_state(packed: Extension) -> SessionState | None:
    if packed.type_name == protos.type_name(protos.CookieBasedSessionState):
        return _cookie_state(packed)
    if packed.type_name == protos.type_name(protos.HeaderBasedSessionState):
        return _header_state(packed)
    packed.problems.add("unsupported session state type")
    return None


def _cookie_state(packed: Extension) -> CookieConfig | None:
    message = packed.parse(protos.CookieBasedSessionState, "could not parse CookieBasedSessionState")
    if message is None or not packed.problems.has_field(message, "cookie"):
        return None
    cookie, at = message.cookie, packed.problems.at("cookie")
    if not cookie.name:
        at.at("name").add("field not present")
    ttl = parse_optional_duration(cookie, "ttl", at) or 0.0
    # Max-Age has whole seconds. Cut here, because a float has no room for a fraction of many seconds and rounds it up.
    ttl = float(cookie.ttl.seconds) or ttl
    # A55 has these three attributes; Envoy's others are ignored, as in the C++ client.
    return CookieConfig(cookie.name, cookie.path, ttl)


def _header_state(packed: Extension) -> HeaderConfig | None:
    message = packed.parse(protos.HeaderBasedSessionState, "could not parse HeaderBasedSessionState")
    if message is None:
        return None
    name, at = message.name.lower(), packed.problems.at("name")
    if problem := find_header_problem(name):
        at.add(problem)
    return HeaderConfig(name)


def find_header_problem(name: str) -> str:
    """Return why no session can be in a header of that lower-case name; empty if one can."""
    if not name:
        return "field not present"
    # The value is base64 text already; under a name in -bin gRPC would code it again.
    if not is_key(name) or name.endswith("-bin"):
        return "not a name of ASCII metadata"
    return f"header {name!r} has another use; choose another name, such as x-session" if _is_taken(name) else ""


def _is_taken(name: str) -> bool:
    try:
        check([(name, "")])  # the protocol's own names: a session's next request could not be sent
    except ValueError:
        return True
    return name in _TAKEN_HEADERS


STATEFUL_SESSION = HttpFilterType(
    config_type=StatefulSessionConfig.config_type,
    parse=_parse,
    override_type=StatefulSessionConfig.override_type,
    parse_override=_parse_override,
)
