"""The mistakes of a custom policy cost its own RPCs and no others, and the log says what to do (A52)."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pytest
import trio
from support.cancelling import wait_and_fail_when_cancelled
from support.custom_policies import NAME, Lowest, ToLowest, asks_for
from support.mesh import Mesh, ask

from trxds import RpcError, Status, StatusCode, open_channel
from trxds.core.observe import AttemptObserver, CallObserver, Observer
from trxds.lb.policy import SubtreeSettings
from trxds.policies import (
    CONNECTING,
    Complete,
    Connectivity,
    CustomConfig,
    Decision,
    Drop,
    EndpointList,
    Fail,
    PolicyType,
    RoundRobinConfig,
    Target,
    WeightedTargetConfig,
)
from trxds.testing import resources as xds


class Broken(ToLowest):
    def decide(self, inputs, now):
        raise ZeroDivisionError


class NoDecision(ToLowest):
    def decide(self, inputs, now):
        return None


class RaisingPicker:
    def pick(self, call):
        raise ZeroDivisionError


class BrokenPicker(ToLowest):
    def __init__(self, channel_control):
        self.endpoints = EndpointList(lambda ready: RaisingPicker())
        self.seen = []


class BrokenTask(ToLowest):
    def decide(self, inputs, now):
        decision = super().decide(inputs, now)
        return Decision(decision.state, decision.picker, hosts=decision.hosts, connect=decision.connect, tasks=TASKS)


async def fall_over():
    await trio.sleep(1)
    raise ZeroDivisionError


TASKS = {"falls over": fall_over}


class BrokenTracker:
    def began(self):
        raise ZeroDivisionError

    def ended(self, status, trailing, now):
        raise ZeroDivisionError


class Tracked(ToLowest):
    def __init__(self, channel_control):
        self.endpoints = EndpointList(self.picker)
        self.seen = []

    def picker(self, ready):
        class Picker(Lowest):
            def pick(self, call):
                return Complete(super().pick(call).host, (BrokenTracker(),))

        return Picker(tuple(each.host for each in ready.values()))


@pytest.mark.parametrize("policy", [Broken, NoDecision, BrokenPicker])
async def test_a_policy_that_raises_fails_its_own_rpcs_and_no_others(policy, autojump_clock, caplog):
    async with Mesh.run(1) as mesh:
        asks_for(mesh)
        mesh.cluster("other")
        mesh.endpoints("other", mesh.hosts)
        mesh.route(xds.route("other", prefix="/other"), xds.route("cart"))
        async with mesh.channel(policies={NAME: PolicyType(policy)}) as channel:
            with pytest.raises(RpcError) as caught:
                await ask(channel)
            assert caught.value.status.code is StatusCode.INTERNAL
            assert "raised an exception, see the log" in caught.value.status.message
            assert "raised" in caplog.text
            assert (await channel.method("/other/Method")(b"")).decode() == mesh.hosts[0]


class Hasty(ToLowest):
    """It wants to decide again at once each time; after a thousand decisions it gives up, so that a test ends."""

    decisions = 0

    def decide(self, inputs, now):
        Hasty.decisions += 1
        return replace(super().decide(inputs, now), wake_at=now if Hasty.decisions < 1000 else math.inf)


async def test_a_policy_that_wakes_itself_at_once_and_for_ever_uses_no_core(autojump_clock):
    async with Mesh.run(1) as mesh:
        asks_for(mesh)
        async with mesh.channel(policies={NAME: PolicyType(Hasty)}) as channel:
            await ask(channel)
            await trio.sleep(1)
            assert Hasty.decisions < 200


async def test_a_picker_that_returns_none_fails_its_rpcs_at_once(autojump_clock, caplog):
    class Forgetful:
        def pick(self, call):
            """Nothing is returned."""

    class Policy(ToLowest):
        def __init__(self, channel_control):
            self.endpoints = EndpointList(lambda ready: Forgetful())
            self.seen = []

    async with Mesh.run(1) as mesh:
        asks_for(mesh)
        async with mesh.channel(policies={NAME: PolicyType(Policy)}) as channel:
            with pytest.raises(RpcError, match="the load balancing policy returned no pick result, see the log"):
                await ask(channel, wait_for_ready=True, timeout=9)
    assert "a picker returned None, which is not a PickResult" in caplog.text


class Answers(ToLowest):
    """A policy whose picks are `answer(host)`."""

    def __init__(self, answer):
        super().__init__(None)
        self.endpoints = EndpointList(lambda ready: AnsweringPicker(answer, next(iter(ready.values())).host))


@dataclass(frozen=True)
class AnsweringPicker:
    answer: object
    host: object

    def pick(self, call):
        return self.answer(self.host)


class Unconcerned(Observer):
    """Observes each event of each call."""

    def call(self, call):
        return UnconcernedByCall()


class UnconcernedByCall(CallObserver):
    def attempt(self, previous, transparent):
        return UnconcernedByAttempt()


class UnconcernedByAttempt(AttemptObserver):
    def picked(self, pick):
        pass

    def delayed(self, why):
        pass


@pytest.mark.parametrize("wait_for_ready", [False, True])
@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        lambda host: Complete(host.address),
        lambda host: Complete(None),
        lambda host: Fail("not today"),
        lambda host: Drop(StatusCode.UNAVAILABLE),
    ],
)
async def test_a_pick_result_without_a_host_or_a_status_fails_its_rpcs_with_internal(
    answer, observed, wait_for_ready, autojump_clock, caplog
):
    async with Mesh.run(1) as mesh, without_xds(mesh, lambda channel_control: Answers(answer)) as channel:
        with (
            channel.observed_by(Unconcerned()) if observed else nullcontext(),
            pytest.raises(RpcError, match="returned no pick result, see the log") as caught,
        ):
            await ask(channel, wait_for_ready=wait_for_ready, timeout=9)
        assert caught.value.status.code is StatusCode.INTERNAL
    assert "which is not a PickResult with a host" in caplog.text


@pytest.mark.parametrize("answer", [lambda: Complete(None), lambda: Drop(Status(StatusCode.INTERNAL)), lambda: 1 / 0])
async def test_a_drop_or_a_wrong_pick_result_is_not_retried(answer, autojump_clock):
    # A6: a call that the policy drops is never retried. Another pick would only meet the same bug of a policy.
    picks = []
    retry = {
        "maxAttempts": 3,
        "initialBackoff": "1s",
        "maxBackoff": "1s",
        "backoffMultiplier": 1,
        "retryableStatusCodes": ["INTERNAL"],
    }

    def pick(host):
        picks.append(host)
        return answer()

    every_method = [{"name": [{}], "retryPolicy": retry}]
    async with (
        Mesh.run(1) as mesh,
        without_xds(mesh, lambda channel_control: Answers(pick), methodConfig=every_method) as channel,
    ):
        with pytest.raises(RpcError) as caught:
            await ask(channel)
        assert caught.value.status.code is StatusCode.INTERNAL
        assert len(picks) == 1


def without_xds(mesh, make, **more):
    """Return a channel to the first host with this policy; no policy above it leases hosts or reads its results.

    `more` is the rest of its service config.
    """
    policies, service_config = {"my": PolicyType(make)}, {"loadBalancingConfig": [{"my": {}}], **more}
    return open_channel(f"ipv4:{mesh.hosts[0]}", network=mesh.network, policies=policies, service_config=service_config)


async def test_a_call_whose_picked_host_is_released_says_what_it_waits_for(autojump_clock):
    class Stubborn(ToLowest):
        """Names its host no more after a second, and goes on to pick it."""

        def __init__(self, channel_control):
            super().__init__(channel_control)
            self.ends = trio.current_time() + 1

        def decide(self, inputs, now):
            if now < self.ends:
                self.last = replace(super().decide(inputs, now), wake_at=self.ends)
                return self.last
            return Decision(Connectivity.READY, self.last.picker)

    async with Mesh.run(1) as mesh, without_xds(mesh, Stubborn) as channel:
        await ask(channel)
        await trio.sleep(2)
        with pytest.raises(RpcError, match=f"waiting for a host of cluster .*: {mesh.hosts[0]}, which was picked"):
            await ask(channel, timeout=5)


@pytest.mark.parametrize(
    ("policy", "places"), [(BrokenTask, [""]), (Tracked, ["at the start of the RPC", "at the end of the RPC"])]
)
async def test_a_task_or_tracker_that_raises_is_logged_and_the_rpcs_go_on(policy, places, autojump_clock, caplog):
    async with Mesh.run(1) as mesh:
        asks_for(mesh)
        async with mesh.channel(policies={NAME: PolicyType(policy)}) as channel:
            await ask(channel)
            await trio.sleep(2)
            assert await ask(channel) == mesh.hosts[0]
            assert "ZeroDivisionError" in caplog.text
            assert all(place in caplog.text for place in places)


class TaskForOneSecond(ToLowest):
    def __init__(self, channel_control):
        super().__init__(channel_control)
        self.end = trio.current_time() + 1

    def decide(self, inputs, now):
        decision = super().decide(inputs, now)
        if now >= self.end:
            return decision
        return replace(decision, tasks={"fails": wait_and_fail_when_cancelled}, wake_at=self.end)


async def test_a_task_whose_cleanup_fails_does_not_end_the_channel(autojump_clock, caplog):
    async with Mesh.run(1) as mesh:
        asks_for(mesh)
        async with mesh.channel(policies={NAME: PolicyType(TaskForOneSecond)}) as channel:
            await ask(channel)
            await trio.sleep(2)
            assert "fails of a policy raised while it was cancelled" in caplog.text
            assert await ask(channel) == mesh.hosts[0]


@pytest.mark.parametrize(
    ("child", "text"),
    [
        (lambda: WeightedTargetConfig({"one": Target(RoundRobinConfig(), 1)}), "each target is Target(weight, config)"),
        (lambda: WeightedTargetConfig({"one": Target(1, "round_robin")}), "each target is Target(weight, config)"),
        (lambda: CustomConfig("my.pkg.Other", {}), "no load balancing policy 'my.pkg.Other' is known; pass it in"),
    ],
)
async def test_a_child_that_cannot_be_made_fails_its_rpcs_and_the_log_says_why(child, text, autojump_clock, caplog):
    class Parent(ToLowest):
        def decide(self, inputs, now):
            report = inputs.children.get("one", CONNECTING)
            return Decision(report.state, report.picker, {"one": child()})

    async with Mesh.run(1) as mesh:
        asks_for(mesh)
        async with mesh.channel(policies={NAME: PolicyType(Parent)}) as channel:
            with pytest.raises(RpcError, match="raised an exception, see the log"):
                await ask(channel)
    assert text in caplog.text


class Array:
    """Settings that cannot be compared, as those of an array."""

    __hash__ = None

    def __eq__(self, other):
        raise ValueError("the truth value of an array is ambiguous")


async def test_settings_of_a_policy_that_cannot_be_compared_are_a_change(autojump_clock):
    async with Mesh.run(1) as mesh:
        asks_for(mesh, size=1)
        async with mesh.channel(policies={NAME: PolicyType(ToLowest, lambda fields: Array())}) as channel:
            await ask(channel)
            asks_for(mesh, size=2)
            await trio.sleep(1)
            assert await ask(channel) == mesh.hosts[0]


@pytest.mark.parametrize(
    "nonsense",
    [
        {"state": "READY"},
        {"picker": None},
        {"children": {"one": "round_robin"}},
        {"hosts": None},
        {"hosts": "10.0.0.1:80"},
        {"hosts": ["10.0.0.1:80"]},
        {"connect": None},
        {"connect": iter(["10.0.0.1:80"])},
        {"deactivate": {"one"}},
        {"wake_at": math.nan},
        {"tasks": {"one": None}},
        {"ejected": [1]},
        {"re_resolve": None},
        {"subtree": SubtreeSettings(security="tls")},
        {"in_first_pass": 1},
    ],
    ids=lambda nonsense: next(iter(nonsense)),
)
async def test_a_decision_that_cannot_be_carried_out_fails_its_rpcs_and_names_the_field(
    nonsense, autojump_clock, caplog
):
    class Nonsense(ToLowest):
        def decide(self, inputs, now):
            return replace(super().decide(inputs, now), **nonsense)

    async with Mesh.run(1) as mesh:
        asks_for(mesh)
        async with mesh.channel(policies={NAME: PolicyType(Nonsense)}) as channel:
            with pytest.raises(RpcError, match="raised an exception, see the log"):
                await ask(channel)
    assert f"Decision.{next(iter(nonsense))} is " in caplog.text
