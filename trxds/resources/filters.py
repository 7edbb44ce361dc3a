"""The chain of HTTP filters in a listener, and the overrides of it in routes (A39).

The registry goes by the type of a configuration; a filter's name only identifies it for overrides. A filter that the
client does not know or cannot run is an error, unless the control plane marks it as optional.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from msgspec import Struct, structs

from . import protos
from .extension import Extension, extension, unpack
from .fault import FAULT
from .filter_config import FilterConfig, HttpFilterType
from .stateful_session import STATEFUL_SESSION
from .validation_errors import ValidationErrors

FILTER_CONFIG = "envoy.config.route.v3.FilterConfig"
# The words of the C++ client, which people search for, and the remedies.
_UNSUPPORTED = "unsupported filter type; mark it is_optional, or give the channel a filter for it (http_filters)"


class HttpFilter(Struct, frozen=True):
    """One filter of the chain. A `disabled` filter runs only if an override configures it."""

    name: str
    config: FilterConfig
    disabled: bool = False


class RouterConfig(FilterConfig, frozen=True):
    """The configuration of the filter that ends every chain; none of its fields concerns a client."""

    config_type: ClassVar[str] = "envoy.extensions.filters.http.router.v3.Router"

    def __str__(self) -> str:
        return "the end of the chain"


def _router(config: Extension) -> RouterConfig | None:
    message = config.parse(protos.Router, "could not parse router filter config")
    return RouterConfig() if message is not None else None


def _not_parsed(config: Extension) -> None:
    """Ignore the configuration of a filter that only servers run."""


ROUTER = HttpFilterType(config_type=RouterConfig.config_type, parse=_router, terminal=True)
# A39: a route table may be for a client or for a server, which its validation does not know. So overrides of filters
# that only servers run are valid. In a client's listener such a filter is rejected.
RBAC = HttpFilterType(
    config_type="envoy.extensions.filters.http.rbac.v3.RBAC",
    parse=_not_parsed,
    override_type="envoy.extensions.filters.http.rbac.v3.RBACPerRoute",
    parse_override=_not_parsed,
    on_clients=False,
)


def registry(types: Iterable[HttpFilterType]) -> Mapping[str, HttpFilterType]:
    """Return the filter types by the message names of their configurations, overrides included."""
    found = {name: each for each in types for name in (each.config_type, each.override_type) if name is not None}
    return MappingProxyType(found)


HTTP_FILTERS = registry((ROUTER, STATEFUL_SESSION, FAULT, RBAC))


# -- the chain in the listener


def parse_http_filters(
    messages: Iterable[Any], types: Mapping[str, HttpFilterType], problems: ValidationErrors
) -> tuple[HttpFilter, ...]:
    """Return the filters of an HttpConnectionManager that the client runs, the terminal one last.

    `types` are the filter types that the client knows, as `registry` returns them.
    """
    before = problems.count
    chain: list[HttpFilter] = []
    kinds: list[tuple[HttpFilterType, ValidationErrors]] = []  # also of filters that could not be parsed
    names: set[str] = set()
    for index, message in enumerate(messages):
        at = problems.at(f"[{index}]")
        _check_name(message.name, names, at)
        config = extension(message, "typed_config", at)
        kind = _usable(config, message.is_optional, types) if config is not None else None
        if config is None or kind is None:
            continue
        # Before it is parsed: after a router that cannot be parsed, "must be the last" still holds for the others.
        kinds.append((kind, at))
        parsed = kind.parse(structs.replace(config, filter_name=message.name))
        if parsed is not None:
            chain.append(HttpFilter(message.name, parsed, message.disabled))
    # A39: also if all of them were optional and unknown, since every chain ends with a router.
    if not kinds and problems.count == before:
        problems.add("expected at least one HTTP filter")
    _check_order(kinds)
    return tuple(chain)


def _check_name(name: str, names: set[str], problems: ValidationErrors) -> None:
    if not name:
        problems.at("name").add("empty filter name")
    elif name in names:
        problems.at("name").add(f"duplicate HTTP filter name: {name}")
    names.add(name)


def _usable(config: Extension, optional: bool, types: Mapping[str, HttpFilterType]) -> HttpFilterType | None:
    """Return the type of filter; None if this client cannot run it, which is a problem unless it is optional."""
    kind = types.get(config.type_name)
    if kind is None or kind.config_type != config.type_name:  # unknown, or the type of an override
        error = _UNSUPPORTED
    elif not kind.on_clients:
        error = "filter is not supported on clients"
    else:
        return kind
    if not optional:
        config.problems.add(error)
    return None


def _check_order(kinds: list[tuple[HttpFilterType, ValidationErrors]]) -> None:
    for kind, at in kinds[:-1]:
        if kind.terminal:
            at.add(f"terminal filter for config type {kind.config_type} must be the last filter in the chain")
    if kinds and not kinds[-1][0].terminal:
        kind, at = kinds[-1]
        at.add(f"non-terminal filter for config type {kind.config_type} is the last filter in the chain")


# -- overrides in virtual hosts, routes and weighted clusters


def parse_filter_overrides(
    messages: Mapping[str, Any], types: Mapping[str, HttpFilterType], problems: ValidationErrors
) -> Mapping[str, FilterConfig]:
    """Return the configurations of a `typed_per_filter_config` by filter name.

    A name that no filter of the listener has is valid: one route table may serve many listeners.
    """
    if not messages:
        return _NO_OVERRIDES
    overrides: dict[str, FilterConfig] = {}
    # A proto map has no order: a NACK's text would differ between responses, and look like a new error.
    for name in sorted(messages):
        at = problems.at(f"typed_per_filter_config[{name}]")
        if not name:
            at.add("filter name must be non-empty")
        config = _override(name, messages[name], types, at)
        if config is not None:
            overrides[name] = config
    return overrides


_NO_OVERRIDES: Mapping[str, FilterConfig] = MappingProxyType({})


def _override(
    name: str, packed: Any, types: Mapping[str, HttpFilterType], problems: ValidationErrors
) -> FilterConfig | None:
    config = unpack(packed, problems)
    optional = False
    if config is not None and config.type_name == FILTER_CONFIG:
        config, optional = _unwrap(config)
    if config is None:
        return None
    kind = types.get(config.type_name)
    if kind is None:
        if not optional:
            config.problems.add(_UNSUPPORTED)
        return None
    if kind.parse_override is None:
        config.problems.add(f"{kind.config_type} does not support overrides")
        return None
    if kind.override_type != config.type_name:
        # A39: the listener's type is no override, even if its bytes can be parsed as one.
        config.problems.add(f"an override of this filter is a {kind.override_type}")
        return None
    return kind.parse_override(structs.replace(config, filter_name=name))


def _unwrap(wrapped: Extension) -> tuple[Extension | None, bool]:
    """Return the content of an envoy.config.route.v3.FilterConfig, and whether it is optional."""
    message = wrapped.parse(protos.FilterConfig, "could not parse FilterConfig")
    if message is None:
        return None, False
    return extension(message, "config", wrapped.problems), message.is_optional
