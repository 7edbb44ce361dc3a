"""An explanation shows each of a program's own HTTP filters by name, with its decision."""

import json

import pytest
from support.mesh import METHOD, Mesh, ask
from support.own_filters import OWN, TENANT, Starts, Tenant, after, listen, own

from trxds import Status, StatusCode
from trxds.filters import FilterStep, FilterType
from trxds.resolver.pick_outcomes import PickDropped
from trxds.testing import resources as xds

DENIED = Status(StatusCode.PERMISSION_DENIED, "not today")
FAULT = {"@type": "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault"}


class Explains:
    """A filter whose explanation is a function."""

    def __init__(self, explain):
        self.explain = explain

    def start(self, call):
        raise AssertionError("an explanation runs no filter")


def explained(explain):
    return {OWN: FilterType(lambda settings, context: Explains(explain))}


async def explanation_of(channel, *pairs):
    await ask(channel) if not pairs else None
    return await channel.explain(METHOD, pairs)


async def test_an_explanation_has_each_filter_by_name_with_its_configuration_and_decision(autojump_clock):
    async with Mesh.run(1) as mesh:
        fault = {"name": "fault", "typed_config": FAULT | {"max_active_faults": 1, "delay": {"header_delay": {}}}}
        listen(mesh, xds.custom_filter("tenant", TENANT, header="x-tenant"), xds.stateful_session(), fault)
        async with mesh.channel(http_filters={TENANT: FilterType(Tenant)}) as channel:
            explanation = await explanation_of(channel)
    lines = str(explanation).splitlines()
    assert "filter tenant (from the listener): {'header': 'x-tenant'}" in lines
    assert 'filter "tenant": adds x-tenant' in lines
    kinds = [type(each).__name__ for each in explanation.filters]
    assert kinds == ["FilterStep", "SessionStep", "FaultStep"]
    assert (explanation.filters[1:2], explanation.filters[2:]) == (explanation.sessions, explanation.faults)
    data = json.loads(json.dumps(explanation.as_data()))
    assert data["filters"][0]["name"] == "tenant"
    assert data["sessions"] == data["filters"][1:2]
    assert explanation.host == mesh.hosts[0]


async def test_a_filter_that_does_not_explain_itself_is_one_opaque_step_and_is_not_called(autojump_clock):
    def start(call):
        raise AssertionError("an explanation runs no filter")

    async with Mesh.run(1) as mesh:
        listen(mesh, "mute")
        async with mesh.channel(http_filters=own(start)) as channel:
            explanation = await channel.explain(METHOD)
    (step,) = explanation.filters
    assert (step.name, step.is_opaque) == ("mute", True)
    assert 'filter "mute": does not explain itself; what follows is for an RPC that it lets pass' in str(explanation)
    assert explanation.steps


async def test_a_filter_that_would_fail_the_call_ends_the_explanation(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, "deny", "after")
        types = explained(lambda call: FilterStep("denies all", delay=2.0, status=DENIED))
        async with mesh.channel(http_filters=types) as channel:
            explanation = await channel.explain(METHOD)
    assert explanation.outcome == PickDropped(DENIED)
    assert [each.name for each in explanation.filters] == ["deny"]
    assert explanation.steps == ()
    assert 'filter "deny": denies all' in str(explanation)


@pytest.mark.parametrize(
    "explain", [lambda call: 1 / 0, lambda call: "yes", lambda call: call.__setattr__("path", "/")]
)
async def test_a_filter_that_raises_in_explain_is_logged_and_changes_nothing(explain, autojump_clock, caplog):
    async with Mesh.run(1) as mesh:
        listen(mesh, "own")
        async with mesh.channel(http_filters=explained(explain)) as channel:
            explanation = await channel.explain(METHOD)
    assert 'the filter "own" (Explains) raised in explain()' in caplog.text
    assert "in explain(), see the log" in explanation.filters[0].verdict
    assert explanation.method == METHOD and explanation.steps


async def test_what_a_filter_changes_shows_in_the_steps_behind_it(autojump_clock):
    def explain(call):
        call.cluster = "blue"
        return FilterStep("goes to blue")

    async with Mesh.run(2) as mesh:
        listen(mesh, "own")
        mesh.route({"green": 1_000_000_000, "blue": 1})
        for name, host in zip(("green", "blue"), mesh.hosts, strict=True):
            mesh.cluster(name)
            mesh.endpoints(name, [host])
        async with mesh.channel(http_filters=explained(explain)) as channel:
            explanation = await channel.explain(METHOD)
    assert explanation.chosen.cluster == "green"
    assert "cds sees cluster blue" in str(explanation)


async def test_settings_without_a_text_are_shown_by_their_type(autojump_clock):
    class Odd:
        def __str__(self):
            raise ValueError("no text")

    async with Mesh.run(1) as mesh:
        listen(mesh, "own")
        async with mesh.channel(
            http_filters={OWN: FilterType(lambda *made: Starts(after), lambda fields: Odd())}
        ) as channel:
            assert "filter own (from the listener): a Odd" in str(await channel.explain(METHOD))


async def test_an_explanation_draws_the_number_that_the_next_call_draws(autojump_clock):
    class Tosses:
        def __init__(self, settings, context):
            self.random, self.drawn = context.random, context.shared.setdefault("drawn", [])

        def start(self, call):
            self.drawn.append(self.random.random())
            drawn[:] = self.drawn

        def explain(self, call):
            return FilterStep(str(call.trace.random(self.random).random()))

    drawn = []
    async with Mesh.run(1) as mesh:
        listen(mesh, "own")
        mesh.route("cart")
        async with mesh.channel(http_filters={OWN: FilterType(Tosses)}) as channel:
            for _ in range(3):
                explanation = await channel.explain(METHOD)
                await ask(channel)
                assert explanation.filters[0].verdict == str(drawn[-1])
    assert len(set(drawn)) == 3
