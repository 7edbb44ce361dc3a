"""Custom load balancing policies work through the public API (A52)."""

from dataclasses import replace

import pytest
import trio
from support.custom_policies import NAME, Lowest, ToLowest, asks_for
from support.mesh import PLANE, Mesh, ask, method, spread
from trio.testing import wait_all_tasks_blocked

from trxds import RpcError, Status, StatusCode, open_xds_client
from trxds.policies import (
    CONNECTING,
    Connectivity,
    Decision,
    Drop,
    EndpointList,
    Endpoints,
    Explainable,
    Fail,
    FixedPicker,
    PickFirstConfig,
    PolicyType,
    Queue,
    RoundRobinConfig,
    aggregate,
)
from trxds.testing import resources as xds

SUBSETTING = "type.googleapis.com/envoy.extensions.load_balancing_policies.random_subsetting.v3.RandomSubsetting"


class Halves:
    """A policy with a child for each endpoint."""

    def __init__(self, channel_control):
        pass

    def decide(self, inputs, now):
        children = {str(at): RoundRobinConfig() for at in range(len(inputs.endpoints))}
        endpoints = {str(at): Endpoints((each,)) for at, each in enumerate(inputs.endpoints)}
        reports = [inputs.children.get(name, CONNECTING) for name in children]
        return Decision(
            aggregate(report.state for report in reports), reports[-1].picker, children, endpoints=endpoints
        )


class ToLast:
    """Sends all RPCs to the last of two children, which both are pick_first."""

    def __init__(self, channel_control):
        self.states = []

    def decide(self, inputs, now):
        names = [str(at) for at in range(len(inputs.endpoints))]
        endpoints = {name: Endpoints((each,)) for name, each in zip(names, inputs.endpoints, strict=True)}
        reports = [inputs.children.get(name, CONNECTING) for name in names]
        self.states.append([report.state for report in reports])
        children = dict.fromkeys(names, PickFirstConfig())
        return Decision(reports[-1].state, reports[-1].picker, children, endpoints=endpoints)


class ToLastOfConnected(ToLast):
    connects_idle_children = True


class WithoutEndpoints:
    """Has no use for its endpoints."""

    reads_endpoints = False

    def __init__(self, channel_control):
        self.decisions = 0

    def decide(self, inputs, now):
        self.decisions += 1
        return Decision(Connectivity.CONNECTING, FixedPicker(Queue()))


class Lazy:
    """Is IDLE until an RPC, or a parent, makes it connect."""

    def __init__(self, channel_control):
        self.connects = False

    def exit_idle(self):
        self.connects = True

    def decide(self, inputs, now):
        if not self.connects:
            return Decision(Connectivity.IDLE, FixedPicker(Queue()))
        report = inputs.children.get("all", CONNECTING)
        return Decision(report.state, report.picker, {"all": RoundRobinConfig()})


async def test_a_cluster_is_balanced_by_a_custom_policy(autojump_clock):
    async with Mesh.run(3) as mesh:
        asks_for(mesh)
        async with mesh.channel(policies={NAME: PolicyType(ToLowest)}) as channel:
            await ask(channel)
            await wait_all_tasks_blocked()
            assert set(await spread(channel, 10)) == {min(mesh.hosts)}


async def test_a_custom_policy_may_have_children(autojump_clock):
    async with Mesh.run(3) as mesh:
        asks_for(mesh)
        async with mesh.channel(policies={NAME: PolicyType(Halves)}) as channel:
            assert set(await spread(channel, 10)) == {mesh.hosts[-1]}


@pytest.mark.parametrize(("policy", "state"), [(ToLast, Connectivity.IDLE), (ToLastOfConnected, Connectivity.READY)])
async def test_idle_children_of_a_custom_policy_connect_without_an_rpc_if_it_says_so(policy, state, autojump_clock):
    made = []

    def make(channel_control):
        made.append(policy(channel_control))
        return made[-1]

    async with Mesh.run(2) as mesh:
        asks_for(mesh)
        async with mesh.channel(policies={NAME: PolicyType(make)}) as channel:
            await ask(channel)
            await trio.sleep(1)
            mesh.servers[mesh.hosts[0]].goaway()
            await trio.sleep(1)
            assert made[0].states[-1] == [state, Connectivity.READY]


async def test_a_custom_policy_that_does_not_read_endpoints_does_not_decide_when_they_change(autojump_clock):
    made = []

    def make(channel_control):
        made.append(WithoutEndpoints(channel_control))
        return made[-1]

    async with Mesh.run(2) as mesh:
        asks_for(mesh)
        mesh.endpoints("cart", mesh.hosts[:1])
        async with mesh.channel(policies={NAME: PolicyType(make)}) as channel:
            channel.try_to_connect()
            await trio.sleep(1)
            before = made[0].decisions
            mesh.endpoints("cart", mesh.hosts)
            await trio.sleep(1)
            assert made[0].decisions == before


async def test_a_custom_policy_that_is_idle_connects_without_an_rpc(autojump_clock):
    async with Mesh.run(1) as mesh:
        asks_for(mesh)
        async with mesh.channel(policies={NAME: PolicyType(Lazy)}) as channel:
            channel.try_to_connect()
            await channel.wait_for_state_change(Connectivity.CONNECTING)
            channel.try_to_connect()
            await trio.sleep(1)
            assert channel.state is Connectivity.READY


async def test_an_exception_of_exit_idle_is_logged_and_the_channel_goes_on(autojump_clock, caplog):
    class Broken(ToLowest):
        def exit_idle(self):
            raise ZeroDivisionError

    async with Mesh.run(1) as mesh:
        asks_for(mesh)
        async with mesh.channel(policies={NAME: PolicyType(Broken)}) as channel:
            await ask(channel)
            channel.try_to_connect()
            assert await ask(channel) == mesh.hosts[0]
    assert "raised in exit_idle()" in caplog.text


async def test_a_custom_policys_parser_gets_its_config_as_a_mapping(autojump_clock):
    made = []

    def make(channel_control):
        made.append(ToLowest(channel_control))
        return made[-1]

    async with Mesh.run(1) as mesh:
        asks_for(mesh, size=5, share=0.5, deep={"names": ["a", None], "on": True})
        async with mesh.channel(policies={NAME: PolicyType(make, lambda fields: ("parsed", fields))}) as channel:
            await ask(channel)
            assert made[0].seen[0].config.settings == (
                "parsed",
                {"size": 5, "share": 0.5, "deep": {"names": ["a", None], "on": True}},
            )
            assert len(made[0].seen[0].endpoints) == 1


async def test_a_config_that_a_custom_policys_parser_rejects_is_nacked(autojump_clock):
    def parse(fields):
        raise ValueError("size: must be positive")

    async with Mesh.run(1) as mesh:
        asks_for(mesh, size=-1)
        async with mesh.channel(policies={NAME: PolicyType(ToLowest, parse)}) as channel:
            with pytest.raises(RpcError, match=r"value\[my\.pkg\.Policy\] error:ValueError: size: must be positive"):
                await ask(channel)


async def test_an_unknown_policy_is_skipped_for_the_next_in_the_list(autojump_clock):
    fallback = {"@type": "type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin"}
    async with Mesh.run(2) as mesh:
        cluster = xds.cluster("cart") | xds.custom_policy(NAME)
        policies = cluster["load_balancing_policy"]["policies"]
        policies.append({"typed_extension_config": {"name": "x", "typed_config": fallback}})
        mesh.plane.put(cluster)
        async with mesh.channel() as channel:
            await ask(channel)
            await wait_all_tasks_blocked()
            assert len(await spread(channel, 10)) == 2


async def test_udpas_typed_struct_configures_a_custom_policy_too(autojump_clock):
    async with Mesh.run(2) as mesh:
        cluster = xds.cluster("cart") | xds.custom_policy(NAME)
        struct = cluster["load_balancing_policy"]["policies"][0]["typed_extension_config"]["typed_config"]
        struct["@type"] = "type.googleapis.com/udpa.type.v1.TypedStruct"
        mesh.plane.put(cluster)
        async with mesh.channel(policies={NAME: PolicyType(ToLowest)}) as channel:
            await ask(channel)
            await wait_all_tasks_blocked()
            assert await spread(channel, 4) == {mesh.hosts[0]: 4}


async def test_random_subsetting_may_have_a_custom_policy_as_child(autojump_clock):
    async with Mesh.run(4) as mesh:
        its = xds.custom_policy(NAME)["load_balancing_policy"]
        subset = {"@type": SUBSETTING, "subset_size": 2, "child_policy": its}
        policies = {"policies": [{"typed_extension_config": {"name": "subset", "typed_config": subset}}]}
        mesh.plane.put(xds.cluster("cart") | {"load_balancing_policy": policies})
        async with mesh.channel(policies={NAME: PolicyType(ToLowest)}) as channel:
            await ask(channel)
            await wait_all_tasks_blocked()
            connected = [host for host in mesh.hosts if mesh.servers[host].connections]
            assert len(connected) == 2
            assert await ask(channel) == min(connected)


@pytest.mark.parametrize("name", ["round_robin", "xds_override_host_experimental"])
async def test_a_custom_policy_with_a_built_in_policys_name_is_a_value_error(name):
    async with Mesh.run(0) as mesh:
        with pytest.raises(ValueError, match=f"'{name}' of its own; choose another name"):
            await mesh.channel(policies={name: PolicyType(ToLowest)}).__aenter__()
        with pytest.raises(ValueError, match=f"'{name}' of its own; choose another name"):
            await open_xds_client(bootstrap=xds.bootstrap(PLANE), policies={name: PolicyType(ToLowest)}).__aenter__()


async def test_a_policy_class_in_place_of_a_policy_type_is_a_type_error():
    async with Mesh.run(0) as mesh:
        with pytest.raises(TypeError, match=r"is a PolicyType, as in PolicyType\(MyPolicy\)"):
            await mesh.channel(policies={NAME: ToLowest}).__aenter__()


# -- explaining


class TellingPicker(Lowest, Explainable):
    def pick(self, call):
        if call.trace is not None:
            call.trace.note("it is the lowest")
        return super().pick(call)


class Telling:
    def __init__(self, channel_control):
        self.endpoints = EndpointList(lambda ready: TellingPicker(tuple(each.host for each in ready.values())))

    def decide(self, inputs, now):
        return self.endpoints.decide(inputs, now)

    def describe(self, inputs, now):
        return "all of it"


class Opaque(ToLowest):
    """A policy whose picker only picks and does not explain."""

    def __init__(self, channel_control):
        self.endpoints = EndpointList(lambda ready: OpaquePicker(tuple(each.host for each in ready.values())))
        self.seen = []


class OpaquePicker(Lowest):
    def pick(self, call):
        assert call.trace is None
        return super().pick(call)


class Raising(Telling):
    def __init__(self, channel_control):
        self.endpoints = EndpointList(lambda ready: RaisingPicker(tuple(each.host for each in ready.values())))

    def describe(self, inputs, now):
        raise ZeroDivisionError


class RaisingPicker(Lowest, Explainable):
    def pick(self, call):
        if call.trace is not None:
            raise ZeroDivisionError
        return super().pick(call)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Telling, "my.pkg.Policy sees all of it; chooses {host}: it is the lowest"),
        (Opaque, "my.pkg.Policy sees itself READY; chooses one of what it has: it does not explain itself"),
        (Raising, "my.pkg.Policy sees itself READY; chooses one of what it has: it does not explain itself"),
        (Halves, "round_robin sees 1 of 1 endpoints READY; chooses {host}: it is its turn"),
    ],
)
async def test_a_custom_policy_may_explain_its_picks_and_need_not(policy, words, autojump_clock):
    async with Mesh.run(1) as mesh:
        asks_for(mesh)
        async with mesh.channel(policies={NAME: PolicyType(policy)}) as channel:
            await ask(channel)
            told = await channel.explain("/shop.Cart/Add")
            assert str(told.steps[-1]) == words.format(host=mesh.hosts[0])
            assert [step.policy for step in told.steps[:2]] == ["xds_cluster_manager_experimental", "cds_experimental"]
            assert ("goes to" in str(told.outcome)) == ("does not" not in words)


@pytest.mark.parametrize("answer", [Fail, Drop])
async def test_a_custom_policy_that_sets_a_server_only_status_fails_with_internal(answer, autojump_clock):
    """A54: the caller would take the status for the server application's."""

    class Refuses:
        def decide(self, inputs, now):
            return Decision(Connectivity.READY, FixedPicker(answer(Status(StatusCode.NOT_FOUND, "no such tenant"))))

    async with Mesh.run(1) as mesh:
        asks_for(mesh)
        async with mesh.channel(policies={NAME: PolicyType(lambda channel_control: Refuses())}) as channel:
            with pytest.raises(RpcError) as caught:
                await ask(channel)
    assert caught.value.status.code is StatusCode.INTERNAL
    assert caught.value.status.message.endswith(
        "the load balancing policy set a status that only a server may set: NOT_FOUND: cluster cart: no such tenant"
        if answer is Fail
        else "the load balancing policy set a status that only a server may set: NOT_FOUND: no such tenant"
    )


async def test_a_custom_policys_tracker_learns_that_the_time_of_an_rpc_was_over(autojump_clock):
    codes = []

    async def silent(call):
        await trio.sleep_forever()

    class Tracking(Lowest):
        def pick(self, call):
            return replace(super().pick(call), trackers=(self,))

        def began(self):
            pass

        def ended(self, status, trailing, now):
            codes.append(status.code)

    class ToTracking(ToLowest):
        def __init__(self, channel_control):
            super().__init__(channel_control)
            self.endpoints = EndpointList(lambda ready: Tracking(tuple(each.host for each in ready.values())))

    async with Mesh.run(1) as mesh:
        asks_for(mesh)
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Silent"] = silent
        async with mesh.channel(policies={NAME: PolicyType(ToTracking)}) as channel:
            with pytest.raises(RpcError):
                await method(channel, "/shop.Cart/Silent")(b"", timeout=1)
    assert codes == [StatusCode.DEADLINE_EXCEEDED]
