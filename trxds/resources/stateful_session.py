"""The stateful session filter: which cookie pins a session to its host (A55)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import protos
from .extension import Extension, extension
from .filter_config import FilterConfig, HttpFilterType
from .problems import Problems
from .units import optional_duration

_COOKIE = protos.type_name(protos.CookieBasedSessionState)
_BAD_CONFIG = "could not parse stateful session filter config"


@dataclass(frozen=True, slots=True)
class CookieConfig:
    """`path` "" means every path; `ttl` is in seconds, 0 makes a session cookie."""

    name: str
    path: str = ""
    ttl: float = 0.0


@dataclass(frozen=True, slots=True)
class StatefulSessionConfig(FilterConfig):
    """Without a cookie the filter is there but off, until an override switches it on."""

    cookie: CookieConfig | None = None


OFF = StatefulSessionConfig()


def _parse(config: Extension) -> StatefulSessionConfig | None:
    message = config.parse(protos.StatefulSession)
    if message is None:
        config.problems.add(_BAD_CONFIG)
        return None
    return _stateful_session(message, config.problems)


def _parse_override(config: Extension) -> StatefulSessionConfig | None:
    """An override replaces the whole configuration; whatever names no cookie switches it off."""
    message = config.parse(protos.StatefulSessionPerRoute)
    if message is None:
        config.problems.add("could not parse stateful session filter override config")
        return None
    if message.WhichOneof("override") != "stateful_session":
        return OFF
    return _stateful_session(message.stateful_session, config.problems.at("stateful_session"))


def _stateful_session(message: Any, problems: Problems) -> StatefulSessionConfig | None:
    if not message.HasField("session_state"):
        return OFF
    state = extension(message.session_state, "typed_config", problems.at("session_state"))
    if state is None:
        return None
    if state.type_name != _COOKIE:
        state.problems.add("unsupported session state type")
        return None
    cookie_state = state.parse(protos.CookieBasedSessionState)
    if cookie_state is None:
        state.problems.add("could not parse CookieBasedSessionState")
        return None
    cookie = _cookie(cookie_state, state.problems)
    return StatefulSessionConfig(cookie) if cookie is not None else None


def _cookie(state: Any, problems: Problems) -> CookieConfig | None:
    at = problems.at("cookie")
    if not state.HasField("cookie"):
        at.add("field not present")
        return None
    cookie = state.cookie
    if not cookie.name:
        at.at("name").add("field not present")
    ttl = optional_duration(cookie, "ttl", at) or 0.0
    return CookieConfig(cookie.name, cookie.path, ttl)


STATEFUL_SESSION = HttpFilterType(
    config_type=protos.type_name(protos.StatefulSession),
    parse=_parse,
    override_type=protos.type_name(protos.StatefulSessionPerRoute),
    parse_override=_parse_override,
    session_affinity=True,
)
