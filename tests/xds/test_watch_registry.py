"""The `WatchRegistry` gives each watcher the newest state once, and waits until it was read."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.resource_update import ResourceUpdate
from trxds.resources.types import CDS
from trxds.xds.watch_registry import WatchRegistry

KEY = CDS, "cart"


class Watches(WatchRegistry):
    """A registry whose resources begin with what the test says is known of them."""

    def __init__(self):
        super().__init__(self.subscribe, self.unsubscribe, lambda changes: None)
        self.known = {}
        self.subscribed = []

    def subscribe(self, type, name):
        self.subscribed.append(name)
        return self.known

    def unsubscribe(self, type, name):
        self.subscribed.remove(name)


@pytest.fixture
def watches():
    return Watches()


@pytest.fixture
def queue():
    return ConflatingQueue()


def state(value):
    return ResourceUpdate(value)


async def test_a_first_watcher_gets_what_is_known_at_once(watches, queue):
    watches.known = {KEY: state(7)}
    watches.add(KEY, queue, "watch")
    assert await queue.next() == {"watch": state(7)}


async def test_a_later_watcher_gets_the_last_state_at_once(watches, queue):
    watches.add(KEY, ConflatingQueue(), "first")
    watches.publish({KEY: state(7)})
    watches.add(KEY, queue, "watch")
    assert await queue.next() == {"watch": state(7)}
    assert watches.subscribed == ["cart"], "all watchers share one subscription"


async def test_a_slow_watcher_skips_to_the_latest_state(watches, queue):
    watches.add(KEY, queue, "watch")
    for value in range(100):
        watches.publish({KEY: state(value)})
    assert await queue.next() == {"watch": state(99)}


async def test_a_state_counts_as_seen_when_the_reader_calls_next_again(watches, queue, nursery):
    watches.add(KEY, queue, "watch")
    steps = []
    watches.publish({KEY: state(1)})
    nursery.start_soon(note_when_seen, watches, steps)
    await wait_all_tasks_blocked()
    assert await queue.next() == {"watch": state(1)}
    await wait_all_tasks_blocked()
    assert steps == [], "read, but not yet come back"
    nursery.start_soon(queue.next)
    await wait_all_tasks_blocked()
    assert steps == ["seen"]
    queue.put("end", state(0))


async def note_when_seen(watches, steps):
    await watches.wait_until_seen([KEY])
    steps.append("seen")


async def test_a_state_of_a_cancelled_watch_counts_as_seen(watches, queue, nursery):
    watch, steps = watches.add(KEY, queue, "watch"), []
    watches.publish({KEY: state(1)})
    nursery.start_soon(note_when_seen, watches, steps)
    await wait_all_tasks_blocked()
    watch.cancel()
    watch.cancel()
    await wait_all_tasks_blocked()
    assert steps == ["seen"]
    assert (watches.count, watches.subscribed) == (0, [])


async def test_a_cancelled_watch_gets_no_more_states(watches, queue, autojump_clock):
    watch = watches.add(KEY, queue, "watch")
    watches.add(KEY, ConflatingQueue(), "other")
    watches.publish({KEY: state(1)})
    watch.cancel()
    watches.publish({KEY: state(2)})
    assert await queue.next(trio.current_time() + 1) == {}
    assert watches.subscribed == ["cart"], "another one watches it"


async def test_what_was_known_goes_with_the_last_watcher(watches, queue, autojump_clock):
    first = watches.add(KEY, ConflatingQueue(), "first")
    watches.publish({KEY: state(1)})
    first.cancel()
    watches.add(KEY, queue, "watch")
    assert await queue.next(trio.current_time() + 1) == {}
