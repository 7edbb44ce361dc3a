"""The host table finds and leases hosts for sessions, and releases idle ones (A55, A75)."""

import math

import pytest
from support.policies import CONNECTING, FAILURE, IDLE, READY, FakeHost

from trxds.lb.circuit_breakers import CallCounter
from trxds.lb.host_trackers import HostTrackers
from trxds.lb.override_host.host_table import MIN_SWEEP_INTERVAL, HostTable
from trxds.resources.endpoint import Endpoint, HealthStatus

UNKNOWN, HEALTHY, DRAINING = HealthStatus.UNKNOWN, HealthStatus.HEALTHY, HealthStatus.DRAINING


class Table(HostTable):
    """A host table with a record of its leases."""

    def __init__(self, *endpoints, idle_timeout=60.0, state=READY):
        self.held = {}
        self.state = state
        self.trackers = HostTrackers()
        super().__init__(self._take, self.held.pop, self.held.get, self.trackers)
        self.update(endpoints, idle_timeout, 0.0)

    def _take(self, address):
        assert address not in self.held, "leased twice"
        self.held[address] = FakeHost(address, self.state)
        return self.held[address]

    def used(self, address, now):
        return self.use(self.get(address), now)

    def awaited(self, address, now):
        return self.wait_for(self.get(address), now)


def endpoint(*addresses, health=HEALTHY):
    return Endpoint(addresses, health)


class TestUpdates:
    def test_every_address_of_the_host_table_has_its_health_status(self):
        table = Table(endpoint("a"), endpoint("b", health=DRAINING))
        assert (table.get("a").health, table.get("b").health, table.get("c")) == (HEALTHY, DRAINING, None)

    def test_each_address_of_an_endpoint_is_first_in_its_own_cookie(self):
        table = Table(endpoint("a", "b", "c"))
        assert [table.get(address).addresses for address in "abc"] == ["a,b,c", "b,a,c", "c,a,b"]

    def test_an_address_of_two_endpoints_belongs_to_the_first(self):
        table = Table(endpoint("a", "b", health=UNKNOWN), endpoint("b", "c"))
        assert (table.get("b").health, table.get("b").addresses) == (UNKNOWN, "b,a")
        assert table.get("c").addresses == "c,b"

    def test_a_host_that_stays_keeps_its_lease_and_last_use(self):
        table = Table(endpoint("a"))
        host = table.used("a", 5.0)
        table.update([endpoint("b"), endpoint("a", "c", health=DRAINING)], 60.0, 7.0)
        entry = table.get("a")
        assert (entry.host, entry.last_used) == (host, 5.0)
        assert (entry.health, entry.addresses) == (DRAINING, "a,c")

    def test_a_removed_host_is_released_at_once(self):
        table = Table(endpoint("a"), endpoint("b"))
        table.used("a", 0.0)
        table.update([endpoint("b")], 60.0, 0.0)
        assert (table.held, table.get("a")) == ({}, None)

    def test_a_released_host_is_not_picked_from_the_cache(self):
        table = Table(endpoint("a"))
        entry = table.get("a")
        first = table.pick(entry, 0.0)
        assert table.pick(entry, 1.0) is first and entry.last_used == 1.0
        table.sweep_idle(1000.0)
        assert table.pick(entry, 1000.0).host is table.held["a"] is not first.host

    def test_a_removed_host_that_returns_is_not_leased(self):
        table = Table(endpoint("a"))
        table.used("a", 0.0)
        table.update([], 60.0, 0.0)
        table.update([endpoint("a")], 60.0, 0.0)
        assert table.get("a").host is None

    def test_an_update_changes_a_host_that_was_looked_up_and_never_used(self):
        table = Table(endpoint("a"))
        table.get("a")
        table.update([endpoint("a", health=DRAINING)], 60.0, 0.0)
        assert table.get("a").health is DRAINING


class TestTrackers:
    """Trackers that policies below attach to a host are called for sessions' RPCs too."""

    def test_a_sessions_pick_has_the_trackers_of_its_host(self):
        table, count = Table(endpoint("a"), endpoint("b")), CallCounter()
        table.trackers.attach("leaf", {"a": count})
        assert table.pick(table.get("a"), 0.0).trackers == (count,)
        assert table.pick(table.get("b"), 0.0).trackers == ()

    def test_changed_trackers_count_from_the_next_pick_on(self):
        table, one, other = Table(endpoint("a")), CallCounter(), CallCounter()
        entry = table.get("a")
        assert table.pick(entry, 0.0).trackers == ()
        table.trackers.attach("leaf", {"a": one})
        assert table.pick(entry, 0.0).trackers == (one,)
        table.trackers.attach("leaf", {"a": other})
        assert table.pick(entry, 0.0).trackers == (other,)
        table.trackers.detach("leaf")
        assert table.pick(entry, 0.0).trackers == ()

    def test_a_sessions_picks_are_one_object_while_trackers_are_unchanged(self):
        table = Table(endpoint("a"))
        table.trackers.attach("leaf", {"a": CallCounter()})
        entry = table.get("a")
        assert table.pick(entry, 0.0) is table.pick(entry, 1.0)

    def test_trackers_of_all_leaves_with_the_host_are_called(self):
        table, one, other = Table(endpoint("a")), CallCounter(), CallCounter()
        table.trackers.attach("here", {"a": one})
        table.trackers.attach("there", {"a": other})
        assert table.pick(table.get("a"), 0.0).trackers == (one, other)


class TestUse:
    def test_a_host_is_leased_by_its_first_use_only(self):
        table = Table(endpoint("a"))
        assert table.held == {}
        assert table.used("a", 0.0) is table.used("a", 1.0) is table.held["a"]

    def test_a_released_host_is_leased_again(self):
        table = Table(endpoint("a"))
        table.used("a", 0.0)
        table.sweep_idle(100.0)
        table.used("a", 101.0)
        assert set(table.held) == {"a"}


class TestSweep:
    def test_the_sweep_keeps_a_host_used_within_the_idle_timeout(self):
        table = Table(endpoint("a"))
        table.used("a", 0.1)
        table.sweep_idle(60.0)
        assert set(table.held) == {"a"}

    def test_the_sweep_releases_a_host_idle_for_exactly_the_timeout(self):
        table = Table(endpoint("a"))
        table.used("a", 0.0)
        table.sweep_idle(60.0)
        assert table.held == {}
        assert table.get("a") is not None, "a cookie may still name it"

    def test_the_sweep_keeps_a_connecting_host(self):
        # An RPC may be waiting for it, and would have it begin anew.
        table = Table(endpoint("a"), idle_timeout=1.0, state=CONNECTING)
        host = table.awaited("a", 0.0)
        table.sweep_idle(10.0)
        assert set(table.held) == {"a"}
        host.state = IDLE
        table.sweep_idle(20.0)
        table.sweep_idle(25.0)
        assert table.held == {}

    def test_the_sweep_leaves_a_host_that_was_waited_for_to_the_next_one(self):
        # It may have failed just now: let go of, it would be forgotten, and connected for the same RPC again.
        table = Table(endpoint("a"), idle_timeout=1.0, state=FAILURE)
        table.awaited("a", 0.0)
        table.sweep_idle(20.0)
        assert set(table.held) == {"a"} and table.sweep_at == 25.0
        table.sweep_idle(25.0)
        assert table.held == {}

    def test_the_sweep_releases_a_host_that_was_waited_for_and_used_since(self):
        table = Table(endpoint("a"), idle_timeout=1.0)
        for _ in range(2):
            table.awaited("a", 0.0)
            table.pick(table.get("a"), 1.0)
        table.sweep_idle(6.0)
        assert table.held == {}

    def test_the_sweep_releases_an_always_connecting_host_after_the_longest_attempt(self):
        table = Table(endpoint("a"), idle_timeout=1.0, state=CONNECTING)
        table.used("a", 0.0)
        table.sweep_idle(149.0)
        assert set(table.held) == {"a"}
        table.sweep_idle(150.0)
        assert table.held == {}

    @pytest.mark.parametrize("state", [IDLE, READY, FAILURE])
    def test_the_sweep_releases_an_idle_host_in_any_other_state(self, state):
        # Also one that is down: as long as its child policy tried it the lease would have no end.
        table = Table(endpoint("a"), idle_timeout=1.0, state=state)
        table.used("a", 0.0)
        table.sweep_idle(10.0)
        assert table.held == {}

    def test_the_first_sweep_is_an_idle_timeout_after_the_first_use(self):
        table = Table(endpoint("a"))
        assert table.sweep_at == math.inf
        table.used("a", 100.0)
        assert table.sweep_at == 160.0

    def test_the_next_sweep_is_when_the_first_host_will_be_idle_for_the_timeout(self):
        table = Table(endpoint("a"), endpoint("b"))
        table.used("a", 10.0)
        table.used("b", 20.0)
        table.sweep_idle(30.0)
        assert table.sweep_at == 70.0

    def test_sweeps_are_at_least_five_seconds_apart(self):
        table = Table(endpoint("a"), endpoint("b"))
        table.used("a", 1.0)
        table.sweep_idle(60.0)
        assert table.sweep_at == 60.0 + MIN_SWEEP_INTERVAL

    def test_a_host_kept_though_idle_is_swept_again_after_five_seconds(self):
        table = Table(endpoint("a"), state=CONNECTING)
        table.used("a", 0.0)
        table.sweep_idle(60.0)
        assert table.sweep_at == 60.0 + MIN_SWEEP_INTERVAL

    def test_there_is_no_sweep_after_the_last_lease(self):
        table = Table(endpoint("a"))
        table.used("a", 0.0)
        table.sweep_idle(60.0)
        assert table.sweep_at == math.inf

    def test_an_idle_timeout_of_zero_sweeps_every_five_seconds(self):
        table = Table(endpoint("a"), idle_timeout=0.0)
        table.used("a", 7.0)
        assert table.sweep_at == 12.0
        table.sweep_idle(12.0)
        assert table.held == {}

    def test_a_shorter_idle_timeout_counts_for_hosts_used_before(self):
        table = Table(endpoint("a"))
        table.used("a", 0.0)
        table.update([endpoint("a")], 10.0, 4.0)
        assert table.sweep_at == 10.0
        table.sweep_idle(10.0)
        assert table.held == {}

    def test_a_longer_idle_timeout_counts_for_hosts_used_before(self):
        table = Table(endpoint("a"))
        table.used("a", 0.0)
        table.update([endpoint("a")], 600.0, 4.0)
        table.sweep_idle(table.sweep_at)
        assert set(table.held) == {"a"} and table.sweep_at == 600.0

    @pytest.mark.parametrize("period", [0.1, 1.0, 4.9, 6.0, 59.0])
    def test_updates_do_not_postpone_the_sweep(self, period):
        table = Table(endpoint("a"))
        table.used("a", 0.0)
        for update in range(1, round(100 / period)):
            table.update([endpoint("a"), endpoint(f"of update {update}")], 60.0, update * period)
            assert table.sweep_at == 60.0

    def test_two_updates_around_a_sweep_do_not_postpone_it(self):
        table = Table(endpoint("a"), idle_timeout=600.0)
        table.used("a", 0.0)
        table.update([endpoint("a")], 600.0, 598.0)
        table.update([endpoint("a")], 600.0, 602.0)
        assert table.sweep_at == 600.0


def test_the_sweep_follows_the_idle_timer_of_a75_step_by_step():
    """The C++ client's test of that name, second by second (IdleTimer of xds_override_host_test.cc)."""
    table = Table(endpoint("a"), endpoint("b"))
    table.used("a", 0.0)
    table.used("b", 0.0)
    table.update([endpoint("a", health=DRAINING), endpoint("b", health=DRAINING)], 60.0, 5.0)
    assert table.sweep_at == 60.0, "55 s from now"
    table.used("a", 5.0)
    table.used("b", 5.0)
    table.sweep_idle(60.0)
    assert set(table.held) == {"a", "b"} and table.sweep_at == 65.0
    table.used("a", 60.5)
    table.sweep_idle(65.0)
    assert set(table.held) == {"a"} and table.sweep_at == 120.5
    table.sweep_idle(120.5)
    assert table.held == {}
