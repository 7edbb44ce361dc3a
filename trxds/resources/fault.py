"""The fault filter: it delays or fails RPCs on purpose (A33)."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from trxds.core.status import StatusCode, from_http

from . import protos
from .extension import Extension
from .filter_config import FilterConfig, HttpFilterType
from .units import parse_optional_duration, wrapped_number_or
from .validation_errors import ValidationErrors

# By these fields Envoy finds the requests that may have the fault. A33 has none of them.
_ENVOYS_LIMITS = ("upstream_cluster", "headers", "downstream_nodes")
# By the number of FractionalPercent.DenominatorType; an unknown one counts as a million.
_DENOMINATORS = {0: 100, 1: 10_000, 2: 1_000_000}


class FractionalPercent(Struct, frozen=True):
    """A share of RPCs: `numerator` of `denominator`. Headers of an RPC use the same denominator, so it is kept."""

    numerator: int = 0
    denominator: int = 100

    def __str__(self) -> str:
        return f"{100 * min(self.numerator, self.denominator) / self.denominator:g}%"


class Delay(Struct, frozen=True):
    """A delay of `seconds` for that share of the RPCs; with `by_header` the RPC's header has the time."""

    seconds: float = 0.0
    by_header: bool = False
    share: FractionalPercent = FractionalPercent()

    def __str__(self) -> str:
        return f"{self.share} wait {'as they ask' if self.by_header else f'{self.seconds:g} s'}"


class Abort(Struct, frozen=True):
    """A failure with `code` for that share of the RPCs, none for OK; with `by_header` the RPC's header has the code."""

    code: StatusCode = StatusCode.OK
    by_header: bool = False
    share: FractionalPercent = FractionalPercent()

    def __str__(self) -> str:
        return f"{self.share} fail {'as they ask' if self.by_header else f'with {self.code.name}'}"


class FaultConfig(FilterConfig, frozen=True):
    """The configuration of the fault filter. At most `max_active` RPCs of a channel have a fault; None is no limit."""

    config_type: ClassVar[str] = "envoy.extensions.filters.http.fault.v3.HTTPFault"
    override_type: ClassVar[str] = config_type

    delay: Delay | None = None
    abort: Abort | None = None
    max_active: int | None = None
    unread_limits: tuple[str, ...] = ()
    """The fields that are set to limit the fault to some calls, and that no gRPC client reads."""

    def __str__(self) -> str:
        limit = f"at most {self.max_active} at a time" if self.max_active is not None else None
        return ", ".join(str(each) for each in (self.delay, self.abort, limit) if each is not None) or "off"


def _parse(config: Extension) -> FaultConfig | None:
    """Parse the configuration; a rate limit of responses, which Envoy has too, does not apply to gRPC."""
    message = config.parse(protos.HTTPFault, "could not parse fault injection filter config")
    if message is None:
        return None
    return FaultConfig(
        _delay(message.delay, config.problems.at("delay")) if message.HasField("delay") else None,
        _abort(message.abort, config.problems.at("abort")) if message.HasField("abort") else None,
        wrapped_number_or(None, message, "max_active_faults"),
        tuple(name for name in _ENVOYS_LIMITS if getattr(message, name)),
    )


def _delay(message: Any, problems: ValidationErrors) -> Delay:
    seconds = parse_optional_duration(message, "fixed_delay", problems) or 0.0
    return Delay(seconds, message.HasField("header_delay"), _share(message.percentage))


def _abort(message: Any, problems: ValidationErrors) -> Abort:
    return Abort(_code(message, problems), message.HasField("header_abort"), _share(message.percentage))


def _code(message: Any, problems: ValidationErrors) -> StatusCode:
    if message.grpc_status > max(StatusCode):
        problems.at("grpc_status").add(f"invalid gRPC status code: {message.grpc_status}")
    elif message.grpc_status:
        return StatusCode(message.grpc_status)
    # By A33's text, 200 aborts with UNKNOWN, and a grpc_status of OK ends the RPC as if it came from the server. The
    # C++ client aborts in neither case, and neither does this: no RPC should end with OK that reached no server.
    return StatusCode.OK if message.http_status in (0, 200) else from_http(message.http_status)


def _share(percent: Any) -> FractionalPercent:
    return FractionalPercent(percent.numerator, _DENOMINATORS.get(percent.denominator, 1_000_000))


# A39 allows one type in both places, and Envoy has no other message for this filter's overrides.
FAULT = HttpFilterType(
    config_type=FaultConfig.config_type,
    parse=_parse,
    override_type=FaultConfig.override_type,
    parse_override=_parse,
)
