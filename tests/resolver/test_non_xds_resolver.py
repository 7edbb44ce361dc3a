"""The resolver without a control plane, between a fake source and a fake tree: what is given to the tree, and when."""

import pytest
import trio
from support.resolving import FakePool, Root
from trio.testing import wait_all_tasks_blocked

from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import unavailable
from trxds.resolver.address_source import SENDER, Resolution, TargetConfig
from trxds.resolver.config_log import ConfigLog
from trxds.resolver.non_xds_resolver import NonXdsResolver
from trxds.resolver.resolver_result_handler import ResolverResultHandler
from trxds.resolver.service_config import ServiceConfig
from trxds.resources.endpoint import Endpoint

CONFIG, OTHER_CONFIG = TargetConfig(ServiceConfig(), "policy"), TargetConfig(ServiceConfig(), "other policy")


def resolution(*addresses, config=CONFIG):
    return Resolution(tuple(Endpoint((each,)) for each in addresses), config)


class Rig:
    """The resolver's source, its pool and its tree; `sent` and `published` are what came of the states."""

    def __init__(self):
        self.pool = FakePool()
        self.sent = []
        self.published = []
        self.applied = []
        handler = ResolverResultHandler(
            lambda resolution, generation: self.sent.append(resolution),
            lambda selector, report: self.published.append((selector, report.picker)),
            tuple,
            self.pool,
            ConfigLog("my:shop", trio.current_time),
            bind_mirrors=None,
            apply_config=self.applied.append,
        )
        self.resolver = NonXdsResolver("my:shop", self, CONFIG, handler)

    # -- as the source

    def open(self, nursery, queue):
        pass

    def close(self):
        pass

    # -- the world moves

    async def resolved(self, *states):
        for each in states:
            self.resolver.queue.put(SENDER, each)
            await wait_all_tasks_blocked()

    async def answers(self, picker, generation):
        self.resolver.queue.put("root", Root(picker, generation))
        await wait_all_tasks_blocked()


@pytest.fixture
async def rig(nursery):
    rig = Rig()
    nursery.start_soon(rig.resolver.run)
    await wait_all_tasks_blocked()
    return rig


async def test_no_host_is_retired_before_the_tree_has_the_newest_addresses(rig):
    await rig.resolved(ResourceUpdate(("10.0.0.1:80",)), ResourceUpdate(("10.0.0.2:80",)))
    assert rig.pool.changes == 1, "both are one update"
    await rig.answers("of the first", 1)
    assert rig.pool.changes == 1
    await rig.answers("of the second", 2)
    assert rig.pool.changes == 0


async def test_no_host_is_retained_after_the_end(nursery):
    rig = Rig()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as running:
            running.start_soon(rig.resolver.run)
            await rig.resolved(ResourceUpdate(("10.0.0.1:80",)))
            scope.cancel()
    assert rig.pool.changes == 0


async def test_a_new_service_config_is_in_force_with_the_first_picker_that_knows_it(rig):
    await rig.resolved(ResourceUpdate(resolution("10.0.0.1:80")))
    await rig.answers("old", 1)
    await rig.resolved(ResourceUpdate(resolution("10.0.0.1:80", config=OTHER_CONFIG)))
    await rig.answers("still old", 1)
    await rig.answers("new", 2)
    (old, _), (still_old, _), (new, _) = rig.published
    assert old is still_old is not new


async def test_addresses_without_a_service_config_leave_the_one_in_force(rig):
    await rig.resolved(ResourceUpdate(resolution("10.0.0.1:80", config=OTHER_CONFIG)), ResourceUpdate(("10.0.0.2:80",)))
    assert rig.sent[-1] == resolution("10.0.0.2:80", config=OTHER_CONFIG)
    assert rig.applied == [CONFIG.config, OTHER_CONFIG.config]


async def test_a_failure_that_leaves_the_addresses_in_force_changes_nothing_in_the_tree_and_is_a_warning(rig):
    known = resolution("10.0.0.1:80")
    await rig.resolved(ResourceUpdate(known))
    await rig.answers("picker", 1)
    [(selector, _)] = rig.published
    await rig.resolved(ResourceUpdate(known, ambient=unavailable("cannot be resolved")))
    assert rig.sent == [known]
    assert selector.warnings == ("cannot be resolved",)
    await rig.resolved(ResourceUpdate(known))
    assert selector.warnings == ()


async def test_a_new_tree_gets_the_addresses_that_the_last_one_had(rig):
    known = resolution("10.0.0.1:80")
    await rig.resolved(ResourceUpdate(known))
    rig.resolver.reset()
    await rig.resolved(ResourceUpdate(known))
    assert rig.sent == [known, known]


async def test_a_target_that_was_never_resolved_is_no_endpoints_and_the_reason(rig):
    await rig.resolved(ResourceUpdate(error=unavailable("no such name")))
    assert rig.sent == [Resolution((), CONFIG, "no such name")]
