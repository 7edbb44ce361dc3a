"""The fault injection filter delays and aborts RPCs (A33)."""

import math
from random import Random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trxds.client.fault_injection_filter import ActiveFaults, Fault, FaultInjection, decide
from trxds.client.filter_chain import FilterRegistry
from trxds.client.filter_protocol import Wait
from trxds.core.metadata import Metadata
from trxds.core.status import Status, StatusCode
from trxds.lb.pick import PickArgs
from trxds.resources.fault import Abort, Delay, FaultConfig, FractionalPercent

ALL = FractionalPercent(100)
INJECTED = "Fault injected"


def injection(config, **headers):
    metadata = Metadata((f"x-envoy-fault-{name.replace('_', '-')}", value) for name, value in headers.items())
    return decide(config, metadata, Random(1))


def delays(share=ALL, **headers):
    """Return the delay in seconds of an RPC with these headers."""
    return injection(FaultConfig(Delay(0.0, True, share)), **headers).delay


def aborts(share=ALL, code=StatusCode.OK, **headers):
    """Return the abort code of such an RPC, or None."""
    status = injection(FaultConfig(None, Abort(code, True, share)), **headers).status
    return status and status.code


def test_a_fixed_delay_and_abort_of_100_percent_apply_to_every_rpc():
    config = FaultConfig(Delay(0.5, share=ALL), Abort(StatusCode.ABORTED, share=ALL))
    assert injection(config) == FaultInjection(0.5, Status(StatusCode.ABORTED, INJECTED))


def test_a_fault_of_zero_percent_never_applies():
    config = FaultConfig(Delay(0.5), Abort(StatusCode.ABORTED))
    assert injection(config) == FaultInjection()


@pytest.mark.parametrize(
    "share", [FractionalPercent(25), FractionalPercent(2_500, 10_000), FractionalPercent(250_000, 1_000_000)]
)
def test_a_fault_percentage_counts_in_its_denominator(share):
    random = Random(1)
    config = FaultConfig(None, Abort(StatusCode.ABORTED, share=share))
    hit = sum(decide(config, Metadata(), random).status is not None for _ in range(4_000))
    assert hit == pytest.approx(1_000, abs=120)


@pytest.mark.parametrize(("share", "drawn", "applies"), [(0, 0, False), (1, 0, True), (1, 1, False), (99, 99, False)])
def test_a_fault_applies_to_as_many_draws_as_its_share_has(share, drawn, applies):
    class Fixed(Random):
        def randrange(self, *_):
            return drawn

    config = FaultConfig(None, Abort(StatusCode.ABORTED, share=FractionalPercent(share)))
    assert (decide(config, Metadata(), Fixed()).status is not None) is applies


def test_an_abort_with_ok_is_no_abort():
    assert injection(FaultConfig(None, Abort(StatusCode.OK, share=ALL))) == FaultInjection()


# -- faults that RPCs ask for


def test_fault_headers_are_ignored_unless_configured():
    config = FaultConfig(Delay(share=ALL), Abort(share=ALL))
    assert injection(config, delay_request="100", abort_grpc_request="14") == FaultInjection()


@pytest.mark.parametrize(
    "value, seconds", [("1500", 1.5), ("0", 0.0), ("-5", 0.0), ("soon", 0.0), ("1_000", 0.0), ("9" * 30, 0.0)]
)
def test_a_fault_header_sets_the_delay_in_milliseconds(value, seconds):
    assert delays(delay_request=value) == seconds


@pytest.mark.parametrize(
    "value, code",
    [
        ("14", StatusCode.UNAVAILABLE),
        ("16", StatusCode.UNAUTHENTICATED),
        ("0", None),
        ("17", StatusCode.UNKNOWN),
        ("99", StatusCode.UNKNOWN),
        ("-1", StatusCode.UNKNOWN),
        ("no number", StatusCode.UNKNOWN),
    ],
)
def test_a_fault_header_sets_the_abort_code(value, code):
    assert aborts(abort_grpc_request=value) is code


def test_a_fault_by_header_needs_its_header():
    assert (delays(), aborts()) == (0.0, None)


def test_a_fault_header_that_comes_twice_is_ignored():
    metadata = Metadata([("x-envoy-fault-delay-request", "1"), ("x-envoy-fault-delay-request", "2")])
    assert decide(FaultConfig(Delay(0.0, True, ALL)), metadata, Random(1)) == FaultInjection()


def test_a_fault_header_may_lower_the_percentage():
    assert delays(delay_request="5", delay_request_percentage="0") == 0.0
    assert aborts(abort_grpc_request="5", abort_percentage="0") is None


def test_a_fault_header_never_raises_the_percentage():
    assert delays(FractionalPercent(0), delay_request="5", delay_request_percentage="100") == 0.0
    assert aborts(FractionalPercent(0), abort_grpc_request="5", abort_percentage="100") is None


@pytest.mark.parametrize("value", ["-1", "some", "4294967296"])
def test_an_invalid_percentage_header_leaves_the_configured_percentage(value):
    assert aborts(abort_grpc_request="5", abort_percentage=value) is StatusCode.NOT_FOUND


def test_envoys_other_abort_percentage_header_has_no_effect():
    assert aborts(abort_grpc_request="5", abort_request_percentage="0") is StatusCode.NOT_FOUND


def test_envoys_http_abort_header_has_no_effect():
    assert aborts(abort_request="503") is None


# -- at work


def fault(active=None, **config):
    return Fault(FaultConfig(**config), active or ActiveFaults(), Random(1))


async def took(filter_):
    """Return the seconds that the filter took, and its result."""
    before = trio.current_time()
    said = filter_.start(PickArgs("/s/m"))
    if isinstance(said, Wait):
        said = await said.step()
    return round(trio.current_time() - before, 6), said


DELAY = Delay(2.0, share=ALL)
ABORT = Abort(StatusCode.ABORTED, share=ALL)
ABORTED = Status(StatusCode.ABORTED, INJECTED)


async def test_a_fault_delay_comes_before_its_abort(autojump_clock):
    assert await took(fault(delay=DELAY, abort=ABORT)) == (2.0, ABORTED)


async def test_an_rpc_goes_on_after_its_fault_delay(autojump_clock):
    assert await took(fault(delay=DELAY)) == (2.0, None)


async def test_delays_beyond_max_active_faults_are_not_injected(autojump_clock):
    filter_ = fault(delay=DELAY, max_active=2)
    times = []

    async def rpc():
        times.append(await took(filter_))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(rpc)
    assert sorted(times) == [(0.0, None), (2.0, None), (2.0, None)]
    assert await took(filter_) == (2.0, None)  # the others are over


async def test_an_abort_is_not_injected_at_max_active_faults(autojump_clock):
    active = ActiveFaults(1)
    assert await took(fault(active, abort=ABORT, max_active=1)) == (0.0, None)
    assert await took(fault(active, abort=ABORT, max_active=2)) == (0.0, ABORTED)


async def test_neither_delay_nor_abort_is_injected_at_max_active_faults(autojump_clock):
    assert await took(fault(ActiveFaults(1), delay=DELAY, abort=ABORT, max_active=1)) == (0.0, None)


async def test_a_cancelled_delay_is_no_active_fault(mock_clock):
    active = ActiveFaults()
    with trio.move_on_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(took, fault(active, delay=Delay(math.inf, share=ALL)))
            await wait_all_tasks_blocked()
            assert active.count == 1
            mock_clock.jump(1)
    assert active.count == 0


# -- the registry


async def test_the_fault_filters_of_a_channel_share_the_count_of_active_faults():
    registry = FilterRegistry("xds:///shop", Random(1), {})
    one, other = (registry.make_chain((FaultConfig(delay=Delay(n, share=ALL)),))[0] for n in (1, 2))
    (elsewhere,) = FilterRegistry("xds:///shop", Random(1), {}).make_chain((FaultConfig(delay=DELAY),))
    assert one._active is other._active is not elsewhere._active


def test_a_fault_without_delay_and_abort_makes_no_filter():
    assert FilterRegistry("xds:///shop", Random(1), {}).make_chain((FaultConfig(max_active=3),)) == ()


# -- explained


@pytest.mark.parametrize("active", [0, 1])
def test_an_explanation_draws_the_fault_of_the_next_call(active):
    config = FaultConfig(
        Delay(1.0, share=FractionalPercent(50)), Abort(StatusCode.ABORTED, share=FractionalPercent(50)), max_active=1
    )
    fates = set()
    for seed in range(40):
        told = Fault(config, ActiveFaults(active), Random(seed)).explain(PickArgs("/s/m"))
        begun = Fault(config, ActiveFaults(active), Random(seed)).start(PickArgs("/s/m"))
        assert (told.delay > 0) is isinstance(begun, Wait)
        if not told.delay:
            assert told.status == begun
        assert told.odds == "50% wait 1 s, 50% fail with ABORTED"
        fates.add(told.verdict)
    full = "; 1 RPCs wait already, and no more may"
    assert fates == (
        {f"not drawn{full}"}
        if active
        else {"not drawn", "drawn to fail", "drawn to wait 1 s", "drawn to wait 1 s, then to fail"}
    )


def test_the_odds_of_an_explained_fault_include_the_calls_headers():
    config = FaultConfig(Delay(0.0, True, FractionalPercent(80)), Abort(StatusCode.OK, True, FractionalPercent(40)))
    headers = Metadata([("x-envoy-fault-delay-request", "20"), ("x-envoy-fault-delay-request-percentage", "10")])
    told = Fault(config, ActiveFaults(), Random(1)).explain(PickArgs("/s/m", headers))
    assert told.odds == "10% wait as they ask, 40% fail as they ask"
