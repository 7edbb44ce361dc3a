"""The whole tree against a model: random endpoints and failures, and what must hold after each change.

- A session whose host is usable meets it, always.
- No RPC reaches a host that is not in the endpoints in force, or, while they are on their way, in those just before.
- No lease, no connection and no task outlives its reasons.
- When the channel is left, no task is.

The cluster is an EDS cluster, or an aggregate of two. Then a host is usable in the leaf in use only (A75), and the
model says which one that is only where there is no doubt; with `sticky_aggregates` it is usable in either.
"""

from dataclasses import dataclass

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.mesh import METHOD, Mesh
from support.tasks import all_tasks, task_names
from trio.testing import MockClock

import trxds
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow

HOSTS = 5
STATUSES = ["UNKNOWN", "HEALTHY", "DRAINING"]
BALANCED = ["UNKNOWN", "HEALTHY"]
IDLE_TIMEOUT = 60.0
SETTLED = 150.0  # seconds: longer than any backoff
PAUSES = [0.0, 0.3, 3.0, SETTLED]  # after a change; the shorter ones let the next one overlap it
ARRIVED = 0.3  # seconds: by then every channel goes by new endpoints
PATIENCE = 160.0  # seconds: longer than an attempt to connect, for which a session waits
COLD = 20 * 60.0  # seconds: longer than anything is kept warm


@dataclass(frozen=True)
class Place:
    """Where the endpoints have a host, if at all."""

    priority: int
    zone: str
    health: str
    leaf: str = "cart"


HEALTH = st.sampled_from([*STATUSES, "UNHEALTHY", "HEALTHY"])
PAUSED = st.sampled_from(PAUSES)
LEAVES = ["first", "second"]


def changes(*leaves):
    """What may happen to hosts that are in one of these clusters, or nowhere."""
    places = st.none() | st.builds(Place, st.integers(0, 1), st.sampled_from("ab"), HEALTH, st.sampled_from(leaves))
    return st.lists(
        st.one_of(
            st.tuples(st.just("endpoints"), st.lists(places, min_size=HOSTS, max_size=HOSTS), PAUSED),
            st.tuples(st.sampled_from(["fall", "hang", "cut", "rise"]), st.integers(0, HOSTS - 1), PAUSED),
            st.tuples(st.just("sleep"), st.sampled_from([0.1, 7.0, 100.0]), PAUSED),
        ),
        max_size=8,
    )


class Model:
    """The mesh as it should be, beside the mesh as it is. `leaves` are the clusters with hosts, the preferred first."""

    def __init__(self, mesh, leaves, sticky):
        self.mesh = mesh
        self.leaves = leaves
        self.sticky = sticky
        self.places = dict.fromkeys(mesh.hosts, Place(0, "a", "HEALTHY", leaves[0]))
        self.down = set()
        self.push()
        self.settled()

    def settled(self):
        """Nothing that was before now matters any more."""
        self.recent = self.in_force = [self.places]
        self.shaken = set(self.down)  # down now or a moment ago
        self.steady = set(self.down)  # down all the time

    def apply(self, change, value):
        if change == "endpoints":
            self.places = dict(zip(self.mesh.hosts, value, strict=True))
            self.recent = [*self.recent, self.places]
            self.in_force = [*self.in_force, self.places]
            self.push()
        elif change != "sleep":
            self.change_host(change, self.mesh.hosts[value])

    def change_host(self, change, host):
        network = self.mesh.network
        match change:
            case "cut":  # and it can be connected again at once
                network.cut(host)
            case "rise":
                self.down.discard(host)
                self.steady.discard(host)
                network.restore(host)
            case "fall" | "hang":
                self.down.add(host)
                self.shaken.add(host)
                network.restore(host)
                (network.refuse if change == "fall" else network.black_hole)(host)
                network.cut(host)

    def passes(self, seconds):
        if seconds >= ARRIVED:
            self.in_force = [self.places]

    def push(self):
        for leaf in self.leaves:
            self.push_leaf(leaf)

    def push_leaf(self, leaf):
        """Priorities have to be without gaps, so the lowest one in use is called 0."""
        placed = {host: place for host, place in self.places.items() if place and place.leaf == leaf}
        ranks = sorted({place.priority for place in placed.values()})
        groups = {}
        for host, place in placed.items():
            groups.setdefault((ranks.index(place.priority), place.zone), {})[host] = place.health
        self.mesh.endpoints(
            leaf,
            *(
                xds.locality(*health, zone=zone, priority=priority, health=health)
                for (priority, zone), health in groups.items()
            ),
        )

    def usable(self, host):
        """Before and after whatever is still settling."""
        if host in self.shaken or not all(_health(places, host) in STATUSES for places in self.recent):
            return False
        # One leaf at all times, also with `sticky`: each leaf gets its endpoints alone, so a host that changes its leaf
        # may be in neither of them for a moment.
        leaves = {places[host].leaf for places in self.recent}
        return len(leaves) == 1 if self.sticky else leaves == {self.leaf_in_use}

    @property
    def leaf_in_use(self):
        """The first that has a host for everybody; None where that is in doubt."""
        for leaf in self.leaves:
            balanced = [_balanced(places, leaf) for places in self.recent]
            if leaf == self.leaves[-1] or all(hosts - self.shaken for hosts in balanced):
                return leaf
            if any(hosts - self.steady for hosts in balanced):
                return None
        raise AssertionError("there is a last one")

    @property
    def listed(self):
        """Where RPCs may go at all."""
        return {h for h in self.mesh.hosts if any(_health(places, h) in STATUSES for places in self.in_force)}

    @property
    def wanted(self):
        """The hosts that balancing leases when all is settled: priority by priority down to one that serves."""
        hosts = set()
        for leaf in self.leaves:
            balanced = _balanced(self.places, leaf)
            for priority in (0, 1):
                its = {host for host in balanced if self.places[host].priority == priority}
                hosts |= its
                if its - self.down:
                    return hosts
        return hosts

    @property
    def serving(self):
        return {
            host
            for host in self.mesh.hosts
            if self.usable(host) and all(_health(places, host) != "DRAINING" for places in self.recent)
        }


def _health(places, host):
    place = places.get(host)
    return place.health if place else None


def _balanced(places, leaf):
    """The hosts of the leaf that its child policy sees."""
    return {host for host, place in places.items() if place and place.leaf == leaf and place.health in BALANCED}


async def play(changes, leaves=("cart",), sticky=False):
    async with Mesh.run(HOSTS) as mesh:
        for leaf in leaves:
            mesh.cluster(leaf, override_statuses=STATUSES, idle_timeout=IDLE_TIMEOUT)
        if "cart" not in leaves:
            mesh.plane.put(xds.aggregate("cart", *leaves))
        model = Model(mesh, leaves, sticky)
        before = len(list(all_tasks()))
        async with mesh.channel(sticky_aggregates=sticky) as channel:
            sessions = [await begin(channel) for _ in range(3)]
            for change, value, pause in changes:
                model.apply(change, value)
                seconds = value if change == "sleep" else pause
                await trio.sleep(seconds)
                model.passes(seconds)
                if pause == SETTLED:
                    await trio.sleep(SETTLED)
                    model.settled()
                async with trio.open_nursery() as calls:
                    for session in sessions:
                        calls.start_soon(check, model, channel, session)
            await trio.sleep(SETTLED)
            model.settled()
            await trio.sleep(COLD)
            check_nothing_is_kept(model, channel)
        await trio.testing.wait_all_tasks_blocked()
        assert len(list(all_tasks())) == before


class Session:
    """By hand, so that the test knows which host the cookie names."""

    def __init__(self):
        self.cookie = None
        self.host = None

    async def ask(self, channel):
        """The host that answered."""
        cookie = [("cookie", self.cookie)] if self.cookie else []
        talk = channel.method(METHOD, client_streaming=True, server_streaming=True)
        async with talk.open(b"", metadata=cookie) as call:
            call.done_sending()
            host = (await call.receive()).decode()
            await call.receive()
            new = call.initial_metadata.first("set-cookie")
        if new is not None:
            self.cookie, self.host = new, host
        return host


async def begin(channel):
    session = Session()
    await session.ask(channel)
    return session


async def check(model, channel, session):
    old = session.host
    try:
        with trio.fail_after(PATIENCE):
            host = await session.ask(channel)
    except trxds.RpcError:
        assert not model.serving, "there is a host that serves everybody"
        assert not model.usable(old), f"the session's host {old} could be reached"
        return
    assert host in model.listed, f"{host} is not in the endpoints"
    if model.usable(old):
        assert host == old, "the session has moved although its host is usable"


def check_nothing_is_kept(model, channel):
    """Nobody has used a session for a long time: only what the policies want is leased, connected and tried."""
    assert {address for address, _ in channel._pool.subchannels} == model.wanted
    connected = {host for host, server in model.mesh.servers.items() if server.connections}
    assert connected == model.wanted - model.down
    unwanted = set(model.mesh.hosts) - model.wanted
    ours = [task for task in task_names() if task.startswith(("subchannel/", "lb/"))]
    assert not [task for task in ours if any(host in task for host in unwanted)]


@given(changes("cart"))
@settings(max_examples=60, deadline=None)
def test_sessions_stay_and_no_task_is_left_over_random_changes(changes):
    trio.run(play, changes, clock=MockClock(autojump_threshold=0))


def over_two_leaves():
    """Two hosts in the first, three in the second."""
    return [Place(0, "a", "HEALTHY", leaf) for leaf in ("first", "first", "second", "second", "second")]


def in_leaf(leaf):
    """The last host alone, in that leaf."""
    return [None, None, None, None, Place(0, "a", "UNKNOWN", leaf)]


# A leaf that comes back into use gets the endpoints that it missed.
@example(
    [("endpoints", in_leaf("second"), 3.0), ("endpoints", in_leaf("first"), 3.0), ("endpoints", in_leaf("second"), 3.0)]
)
@example([("endpoints", in_leaf("first"), 0.3), ("endpoints", in_leaf("second"), 150.0)])
@example([("endpoints", over_two_leaves(), SETTLED), ("fall", 0, 3.0), ("fall", 1, SETTLED), ("sleep", 7.0, 0.0)])
@example([("endpoints", over_two_leaves(), 0.0), ("fall", 0, 0.0), ("fall", 1, SETTLED), ("rise", 1, SETTLED)])
@given(changes(*LEAVES))
@settings(max_examples=60, deadline=None)
def test_sessions_of_an_aggregate_stay_while_their_leaf_is_in_use(changes):
    trio.run(play, changes, LEAVES, clock=MockClock(autojump_threshold=0))


@example([("endpoints", over_two_leaves(), SETTLED), ("fall", 0, 3.0), ("fall", 1, SETTLED), ("rise", 1, SETTLED)])
@example([("endpoints", over_two_leaves(), 0.0), ("fall", 0, 0.0), ("fall", 1, SETTLED), ("rise", 1, SETTLED)])
@given(changes(*LEAVES))
@settings(max_examples=60, deadline=None)
def test_sessions_of_a_sticky_aggregate_stay_in_their_leaf(changes):
    trio.run(play, changes, LEAVES, True, clock=MockClock(autojump_threshold=0))


def test_the_tree_model_notices_a_session_that_moves(monkeypatch):
    monkeypatch.setattr("trxds.lb.override_host.policy.OverridePicker._session_host", lambda *args: None)
    with pytest.raises(BaseExceptionGroup) as caught:
        trio.run(play, [("sleep", 7.0, 0.0)] * 5, clock=MockClock(autojump_threshold=0))
    assert caught.group_contains(AssertionError, match="moved although")
