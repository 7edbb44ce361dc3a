"""A thread watches state, hosts and events of a channel until Ctrl-C, or until the channel closes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import trio

from trxds import Connectivity
from trxds.sync.hand_over import ThreadResult
from trxds.testing import resources as xds


def test_what_watches_a_channel_ends_with_it(world):
    with ThreadPoolExecutor(3) as threads:
        with world.channel() as channel:
            channel.method("/shop.Cart/Echo")(b"")
            block = channel.session()
            session = block.__enter__()
            events = threads.submit(list, session.events())
            draining = threads.submit(session.wait_draining)
            state = threads.submit(channel.wait_for_state_change, Connectivity.READY)
            session.method("/shop.Cart/Echo")(b"")
        block.__exit__(None, None, None)
        events.result(5)
        assert state.result(5) is None
        with pytest.raises(trio.ClosedResourceError):
            draining.result(5)


def test_a_watch_of_hosts_goes_on_after_ctrl_c(world, monkeypatch):
    def interrupted(_):
        monkeypatch.undo()
        raise KeyboardInterrupt

    with world.channel() as channel:
        hosts = channel.hosts(watch=True)
        assert {next(hosts).address, next(hosts).address} == world.hosts
        monkeypatch.setattr(ThreadResult, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(hosts)
        world.put(xds.endpoints("cart"))
        assert next(hosts).has_left
