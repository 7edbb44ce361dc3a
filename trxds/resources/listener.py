"""Listener: the filter chain of a service, and its routes by name or inline (LDS; A27, A39)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from . import protos
from .cooperative_parse import Slices
from .discovery import is_ads_or_self
from .extension import extension
from .filters import HttpFilter, parse_http_filters
from .route import RouteConfig, parse_route_config
from .units import parse_optional_duration
from .validation_errors import ValidationErrors

if TYPE_CHECKING:
    from .context import ParseContext


class Listener(Struct, frozen=True):
    """A parsed Listener: it has `rds_name` or `route_config`. `max_stream_duration` is in seconds, 0 is no limit.

    `api` is False for the listener of a server, which a client cannot use. That is a valid resource; the error is
    reported by the target that needs it.
    """

    name: str
    rds_name: str | None = None
    route_config: RouteConfig | None = None
    max_stream_duration: float | None = None
    http_filters: tuple[HttpFilter, ...] = ()
    api: bool = True


def parse_listener(message: Any, context: ParseContext, problems: ValidationErrors) -> Slices[Listener]:
    if not message.HasField("api_listener"):
        if not message.HasField("address"):
            problems.add("Listener has neither address nor ApiListener")
        return Listener(message.name, api=False)
    manager = extension(message.api_listener, "api_listener", problems.at("api_listener"))
    if manager is None:
        return Listener(message.name)
    error_texts = "unsupported API listener type", "could not parse HttpConnectionManager config"
    parsed = manager.parse_only(protos.HttpConnectionManager, *error_texts)
    if parsed is None:
        return Listener(message.name)
    return (yield from _connection_manager(message.name, parsed, context, manager.problems))


def _connection_manager(name: str, message: Any, context: ParseContext, problems: ValidationErrors) -> Slices[Listener]:
    _check_trust(message, problems)
    # A31: the default of all routes without a max_stream_duration.
    at = problems.at("common_http_protocol_options")
    limit = parse_optional_duration(message.common_http_protocol_options, "max_stream_duration", at)
    filters = parse_http_filters(message.http_filters, context.http_filters, problems.at("http_filters"))
    rds_name, inline = None, None
    match message.WhichOneof("route_specifier"):
        case "rds":
            rds_name = _rds_name(message.rds, problems.at("rds"))
        case "route_config":
            inline = yield from parse_route_config(message.route_config, context, problems.at("route_config"))
        case _:
            problems.add("neither route_config nor rds is set")
    return Listener(name, rds_name, inline, limit, filters)


def _check_trust(message: Any, problems: ValidationErrors) -> None:
    """Reject a config that trusts somebody's word for the client's address: gRPC does not (A41)."""
    if message.xff_num_trusted_hops:
        problems.at("xff_num_trusted_hops").add("must be zero if present")
    if message.original_ip_detection_extensions:
        problems.at("original_ip_detection_extensions").add("must be empty")


def _rds_name(rds: Any, problems: ValidationErrors) -> str:
    if problems.has_field(rds, "config_source") and not is_ads_or_self(rds.config_source):
        problems.at("config_source").add("ConfigSource does not specify ADS or SELF")
    # An empty name is valid, as in the C++ client: no resource has it, so it will not exist.
    return str(rds.route_config_name)
