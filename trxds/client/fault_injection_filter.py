"""The fault injection filter (A33) delays or fails a random share of the RPCs."""

from __future__ import annotations

from functools import partial
from random import Random

import trio
from msgspec import Struct, structs

from trxds.core.metadata import Metadata
from trxds.core.status import Status, StatusCode
from trxds.lb.pick import PickArgs
from trxds.resolver.pick_outcomes import FaultStep
from trxds.resources.fault import Abort, Delay, FaultConfig, FractionalPercent
from trxds.resources.matchers import header_value, parse_integer

from .filter_protocol import Wait

ABORT_CODE = "x-envoy-fault-abort-grpc-request"
ABORT_SHARE = "x-envoy-fault-abort-percentage"  # not, as one would think, ...-abort-request-percentage
DELAY_MILLISECONDS = "x-envoy-fault-delay-request"
DELAY_SHARE = "x-envoy-fault-delay-request-percentage"

INJECTED = "Fault injected"


class ActiveFaults(Struct):
    """`ActiveFaults` counts the RPCs of a channel that are being delayed now, for `max_active_faults` (A33)."""

    count: int = 0


class FaultInjection(Struct, frozen=True):
    """A `FaultInjection` is the fault of one RPC: `delay` in seconds, `status` None if it is not to fail."""

    delay: float = 0.0
    status: Status | None = None


class Fault:
    """A `Fault` is one configured filter, shared by all RPCs of the routes with that configuration."""

    def __init__(self, config: FaultConfig, active: ActiveFaults, random: Random) -> None:
        self._config = config
        self._active = active
        self._random = random

    def start(self, call: PickArgs) -> Wait | Status | None:
        """Return the status that ends the RPC, a wait for the delay, or None to let it pass."""
        injection = self._draw(call.metadata, self._random)
        return Wait(partial(self._delay, injection)) if injection.delay else injection.status

    def explain(self, call: PickArgs) -> FaultStep:
        """Return the explanation of what `start` would do; it does not wait."""
        faults = (self._config.delay, DELAY_SHARE), (self._config.abort, ABORT_SHARE)
        odds = ", ".join(_odds(fault, call.metadata, header) for fault, header in faults if fault is not None)
        random = self._random if call.trace is None else call.trace.random(self._random)
        injection = self._draw(call.metadata, random)
        full = "" if self._may_begin() else f"; {self._active.count} RPCs wait already, and no more may"
        return FaultStep(odds, _describe(injection) + full, injection.delay, injection.status)

    def _draw(self, metadata: Metadata, random: Random) -> FaultInjection:
        # A33: at the limit (`max_active_faults`) no other RPC has a fault.
        return decide(self._config, metadata, random) if self._may_begin() else FaultInjection()

    def _may_begin(self) -> bool:
        limit = self._config.max_active
        return limit is None or self._active.count < limit

    async def _delay(self, injection: FaultInjection) -> Status | None:
        self._active.count += 1
        try:
            await trio.sleep(injection.delay)
        finally:
            self._active.count -= 1
        return injection.status


def decide(config: FaultConfig, metadata: Metadata, random: Random) -> FaultInjection:
    """Draw for the delay and then for the abort; an unconfigured fault draws no random number."""
    return FaultInjection(_delay(config.delay, metadata, random), _abort(config.abort, metadata, random))


def _delay(delay: Delay | None, metadata: Metadata, random: Random) -> float:
    if delay is None:
        return 0.0
    seconds = _milliseconds(metadata) / 1000 if delay.by_header else delay.seconds
    return seconds if seconds and _is_drawn(delay, metadata, DELAY_SHARE, random) else 0.0


def _milliseconds(metadata: Metadata) -> int:
    return max(_number(metadata, DELAY_MILLISECONDS) or 0, 0)


def _abort(abort: Abort | None, metadata: Metadata, random: Random) -> Status | None:
    if abort is None:
        return None
    code = _code(abort, metadata)
    return Status(code, INJECTED) if code and _is_drawn(abort, metadata, ABORT_SHARE, random) else None


def _code(abort: Abort, metadata: Metadata) -> StatusCode:
    value = header_value(metadata, ABORT_CODE) if abort.by_header else None
    if value is None:
        return abort.code
    number = parse_integer(value)
    # A header may carry any number, so one outside gRPC's codes becomes UNKNOWN.
    return StatusCode(number) if number is not None and 0 <= number <= max(StatusCode) else StatusCode.UNKNOWN


def _is_drawn(fault: Delay | Abort, metadata: Metadata, header: str, random: Random) -> bool:
    """Draw whether the RPC is in the fault's share of RPCs."""
    share = _share(fault, metadata, header)
    return share.numerator >= share.denominator or random.randrange(share.denominator) < share.numerator


def _share(fault: Delay | Abort, metadata: Metadata, header: str) -> FractionalPercent:
    by_header = _number(metadata, header) if fault.by_header else None
    # A33: a header may lower the configured percentage and never raise it.
    if by_header is None or not 0 <= by_header < fault.share.numerator:
        return fault.share
    return structs.replace(fault.share, numerator=by_header)


def _odds(fault: Delay | Abort, metadata: Metadata, header: str) -> str:
    """Describe the fault with the share that applies to this RPC."""
    return str(structs.replace(fault, share=_share(fault, metadata, header)))


def _describe(injection: FaultInjection) -> str:
    delay = f"drawn to wait {injection.delay:g} s" if injection.delay else ""
    abort = f"{'then' if delay else 'drawn'} to fail" if injection.status else ""
    return ", ".join(filter(None, (delay, abort))) or "not drawn"


def _number(metadata: Metadata, header: str) -> int | None:
    value = header_value(metadata, header)
    return None if value is None else parse_integer(value)
