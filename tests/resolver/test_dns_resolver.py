"""One DNS name, from the look-up to the queue: failures, their pace, and the end of the watch (A37)."""

from itertools import pairwise
from random import Random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trxds.core.conflating_queue import ConflatingQueue
from trxds.resolver.dns_resolver import DnsResolver

FOUND = ("10.0.0.1:80",)


class Names:
    """Look-ups whose results are `results` in turn, the last one for ever; `times` has when each began."""

    def __init__(self, *results):
        self.results = list(results)
        self.times = []

    async def look_up(self, host, port):
        self.times.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, OSError):
            raise result
        return result


@pytest.fixture
def watched(nursery):
    """Watch the name "cart:80"; return the resolver, the watch and its queue."""

    def watch(names, **more):
        resolver, queue = DnsResolver(nursery, names.look_up, Random(1), **more), ConflatingQueue()
        return resolver, resolver.watch("cart:80", queue, "name"), queue

    return watch


async def is_empty(queue):
    return await queue.next(trio.current_time()) == {}


async def test_the_backoff_of_a_name_begins_anew_after_a_success(watched, autojump_clock):
    lost = OSError("lost")
    names = Names(*[lost] * 6, FOUND, lost)
    watched(names, refresh=1000)
    await trio.sleep(1500)
    waits = [after - before for before, after in pairwise(names.times)]
    assert waits[5] > 10
    assert waits[6] == pytest.approx(1000)
    assert waits[7] < 2


async def test_a_name_is_not_resolved_again_for_30_seconds_after_a_success_that_follows_failures(
    watched, autojump_clock
):
    names = Names(*[OSError("lost")] * 4, FOUND)
    resolver, _, queue = watched(names)
    while (await queue.next())["name"].value is None:
        pass
    succeeded = names.times[-1]
    assert succeeded > 5
    await wait_all_tasks_blocked()
    resolver.re_resolve("cart:80")
    await trio.sleep(100)
    assert names.times[5:] == [pytest.approx(succeeded + 30)]


async def test_a_name_without_addresses_is_resolved_again_after_a_backoff(watched, autojump_clock):
    names = Names((), (), (), FOUND)
    watched(names)
    await trio.sleep(600)
    assert [after - before for before, after in pairwise(names.times)] == [
        pytest.approx(1.6**number, rel=0.21) for number in range(3)
    ]


async def test_a_failed_look_up_without_an_error_number_has_the_errors_own_text(watched, autojump_clock):
    _, _, queue = watched(Names(OSError("there are no names here")))
    state = (await queue.next())["name"]
    assert state.error.message.endswith(": there are no names here")


async def test_a_watch_of_a_name_that_is_cancelled_takes_its_unread_result_back(watched, autojump_clock):
    _, watch, queue = watched(Names(FOUND))
    await wait_all_tasks_blocked()
    watch.cancel()
    assert await is_empty(queue)


async def test_a_look_up_that_ends_after_its_watch_is_of_no_account(watched, autojump_clock):
    may_end = trio.Event()

    class Shielded(Names):
        async def look_up(self, host, port):
            with trio.CancelScope(shield=True):
                await may_end.wait()
            return FOUND

    _, watch, queue = watched(Shielded())
    await wait_all_tasks_blocked()
    watch.cancel()
    may_end.set()
    await wait_all_tasks_blocked()
    assert await is_empty(queue)


async def test_a_name_that_nobody_watches_is_not_resolved_again(watched, autojump_clock):
    names = Names(FOUND)
    resolver, watch, _ = watched(names)
    await wait_all_tasks_blocked()
    watch.cancel()
    resolver.re_resolve("cart:80")
    await trio.sleep(60)
    assert len(names.times) == 1
