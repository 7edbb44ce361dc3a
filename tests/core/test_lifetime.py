"""`Lifetime` ends with its last hold, and wins the races that plain reference counts lose."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trxds.core.lifetime import Lifetime


async def _live(lifetime, ended):
    try:
        with lifetime.scope:
            await trio.sleep_forever()
    finally:
        ended.append(lifetime)


async def test_the_last_release_ends_a_lifetime(nursery):
    lifetime, ended = Lifetime("cart"), []
    nursery.start_soon(_live, lifetime, ended)
    other = lifetime.hold()
    lifetime.initial_hold.release()
    await wait_all_tasks_blocked()
    assert ended == []
    other.release()
    await wait_all_tasks_blocked()
    assert ended == [lifetime]


async def test_a_hold_released_twice_counts_once():
    lifetime = Lifetime("cart")
    other = lifetime.hold()
    other.release()
    other.release()
    assert not lifetime.ended


async def test_a_lifetime_with_its_initial_hold_only_ends_with_it(nursery):
    lifetime, ended = Lifetime("cart"), []
    lifetime.initial_hold.release()
    nursery.start_soon(_live, lifetime, ended)
    await wait_all_tasks_blocked()
    assert ended == [lifetime], "its task begins in a scope that is cancelled already"


async def test_a_lifetime_leaves_the_registry_in_the_step_of_its_last_release():
    registry = {}
    lifetime = Lifetime("cart", registry)
    assert registry == {"cart": lifetime}
    lifetime.initial_hold.release()
    assert registry == {}


async def test_a_name_registered_in_the_step_of_the_last_release_is_a_new_lifetime(nursery):
    registry, ended = {}, []
    old = Lifetime("cart", registry)
    nursery.start_soon(_live, old, ended)
    await wait_all_tasks_blocked()
    old.initial_hold.release()
    new = Lifetime("cart", registry)  # before the old one's task has had a chance to run
    nursery.start_soon(_live, new, ended)
    await wait_all_tasks_blocked()
    assert ended == [old]
    assert registry == {"cart": new}
    new.initial_hold.release()


async def test_an_ended_lifetime_cannot_be_held():
    lifetime = Lifetime("cart")
    lifetime.initial_hold.release()
    with pytest.raises(RuntimeError, match="cart"):
        lifetime.hold()


async def test_a_second_lifetime_of_a_registered_name_is_a_value_error():
    registry = {}
    Lifetime("cart", registry)
    with pytest.raises(ValueError, match="cart"):
        Lifetime("cart", registry)


async def test_the_last_holder_of_a_lifetime_may_be_cancelled_while_it_releases(nursery):
    lifetime, ended = Lifetime("cart"), []
    nursery.start_soon(_live, lifetime, ended)
    hold = lifetime.hold()
    lifetime.initial_hold.release()

    async def holder():
        try:
            await trio.sleep_forever()
        finally:
            hold.release()

    async with trio.open_nursery() as calls:
        calls.start_soon(holder)
        await wait_all_tasks_blocked()
        calls.cancel_scope.cancel()
    await wait_all_tasks_blocked()
    assert ended == [lifetime]
