"""Tests of nodes use this tree, whose policies decide what their configuration says, over hosts of the test.

tree = Tree(nursery)
await tree.configure(Wants("root", children={"a": Wants("leaf")}))
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from random import Random

from support.policies import CONNECTING, FakeHost
from trio.testing import wait_all_tasks_blocked

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.observers import Observers
from trxds.lb.circuit_breakers import CircuitBreakers
from trxds.lb.endpoint_set import NO_ENDPOINTS
from trxds.lb.host_trackers import HostTrackers
from trxds.lb.load_report.load_store import LoadStore
from trxds.lb.policy import Decision, SubtreeSettings
from trxds.lb.policy_node import Configure, Node, PolicyContext
from trxds.lb.registry import Registry


@dataclass(frozen=True)
class Wants:
    """The configuration of a `Scripted` policy: the decision that it returns each time."""

    text: str
    children: Mapping[str, "Wants"] = field(default_factory=dict)
    deactivate: frozenset = frozenset()
    hosts: tuple = ()
    connect: tuple = ()
    tasks: Mapping = field(default_factory=dict)
    wake_at: float = inf
    raises: bool = False
    policy: str = "scripted"
    reads_endpoints: bool = True
    endpoints: Mapping | None = None
    picker: object = None  # instead of one with the text
    trackers: Mapping = field(default_factory=dict)
    collects: HostTrackers | None = None


@dataclass(frozen=True)
class Texts:
    """A picker that shows the policy's text, and those of its children."""

    text: str
    below: tuple = ()

    def pick(self, call):
        raise AssertionError("nobody picks here")


class BusyNode:
    """A node in the middle of a step: it passes nothing on, and reads its queue later."""

    def pass_on(self, update=None):
        return False


class Scripted:
    def __init__(self, channel_control):
        self.channel_control = channel_control
        self.decisions = []  # (inputs, now) of each

    @property
    def text(self):
        return self.decisions[-1][0].config.text if self.decisions else ""

    def decide(self, inputs, now):
        self.decisions.append((inputs, now))
        wants = inputs.config
        self.reads_endpoints = wants.reads_endpoints
        if wants.raises:
            raise ZeroDivisionError(wants.text)
        below = tuple(inputs.children[name].picker for name in wants.children if name in inputs.children)
        return Decision(
            CONNECTING,
            wants.picker or Texts(wants.text, below),
            wants.children,
            wants.deactivate,
            wants.hosts,
            wants.connect,
            wants.wake_at if wants.wake_at > now else inf,
            wants.tasks,
            trackers=wants.trackers,
            subtree=SubtreeSettings(collects=wants.collects),
            endpoints=wants.endpoints,
        )


class FakeHosts:
    """A pool that records leases, and sends a message when the test changes a host."""

    def __init__(self):
        self.known = {}
        self.leases = Counter()
        self.history = []
        self._mailboxes = {}

    def lookup(self, address):
        return self.known.get(address)

    def lease(self, address, queue):
        host = self.known.setdefault(address, FakeHost(address))
        self.leases[address] += 1
        self.history.append(f"+{address}")
        self._mailboxes[address] = queue
        return FakeLease(self, host, queue)

    def change(self, address, state):
        self.known[address].state = state
        self._mailboxes[address].put(("host", address), self.known[address])

    @property
    def leased(self):
        return {address for address, count in self.leases.items() if count}


class FakeLease:
    def __init__(self, hosts, host, queue):
        self._hosts = hosts
        self._queue = queue
        self.subchannel = host

    def release(self):
        if self._hosts is not None:
            self._hosts.leases[self.subchannel.address] -= 1
            self._hosts.history.append(f"-{self.subchannel.address}")
            self._queue.discard(("host", self.subchannel.address))
            self._hosts = None


class Tree:
    """A running root; `reports` has all its reports, `made` all policies in the order in which they were made."""

    def __init__(self, nursery, **more):
        self.made = []
        self.hosts = FakeHosts()
        self.reports = []
        self.queue = ConflatingQueue()
        self.generation = 0
        registry = Registry({"scripted": self._make, "other": self._make, **more})
        context = PolicyContext(
            registry,
            self.hosts,
            Random(1),
            CircuitBreakers(),
            LoadStore(),
            re_resolve=lambda name: None,
            request_re_resolution=None,
            observers=Observers(),
            log_decision=None,
        )
        self.root = Node("root", "scripted", context, self.queue, self.reports.append)
        nursery.start_soon(self.root.run, name="lb/root")

    def _make(self, channel_control):
        self.made.append(Scripted(channel_control))
        return self.made[-1]

    def send(self, wants, endpoints=NO_ENDPOINTS):
        self.generation += 1
        self.queue.put("config", Configure(wants, self.generation, endpoints))

    async def configure(self, wants, endpoints=NO_ENDPOINTS):
        self.send(wants, endpoints)
        await wait_all_tasks_blocked()

    def policy(self, text):
        """Return the newest policy with that configuration."""
        return next(policy for policy in reversed(self.made) if policy.text == text)

    @property
    def generations(self):
        return [report.generation for report in self.reports]


def parent(text="root", deactivate=(), **children):
    return Wants(text, children, frozenset(deactivate))
