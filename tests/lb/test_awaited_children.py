"""A node reports once every child that it keeps has decided by what it was sent last."""

from random import Random

import pytest
from support.policies import READY
from support.tree import BusyNode, FakeHosts

from trxds.core.conflating_queue import ConflatingQueue
from trxds.lb.child_policy import Child, Children
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.pick import QUEUE_PICKER
from trxds.lb.policy import Decision, PolicyState
from trxds.resources.leaf_policy import LeastRequest, RoundRobin

NAMES = ("p0", "p1", "p2")
CONFIGS = (RoundRobin(), LeastRequest(2), LeastRequest(3))


class Family:
    """Children, and for each the generation of what it was sent last, as it read it from its queue."""

    def __init__(self, random: Random) -> None:
        self.children = Children(FakeHosts(), ConflatingQueue(), BusyNode())
        self.generation = 0
        self._random = random
        self._all: list[Child] = []
        self._sent: dict[Child, int] = {}

    async def reconcile(self) -> None:
        """Decide anew, with other children, configurations, endpoints or a new generation, or all of them."""
        self.generation += self._random.random() < 0.5
        wanted = {name: self._random.choice(CONFIGS) for name in NAMES if self._random.random() < 0.7}
        decision = Decision(READY, QUEUE_PICKER, children=wanted, deactivate=frozenset(NAMES[:2]) - wanted.keys())
        endpoints = Endpoints(note=self._random.choice("ab"))
        self.children.reconcile(decision, endpoints, self.generation, 0.0, self._start)
        for child in self._all:
            for message in (await child.queue.next(deadline=0)).values():
                self._sent[child] = message.generation

    def _start(self, child: Child) -> BusyNode:
        self._all.append(child)
        return BusyNode()

    def report(self) -> None:
        """Have any child decide by any generation from its last one to that which it was sent last."""
        if self._all:
            child = self._random.choice(self._all)
            first = child.report.generation if child.report is not None else 0
            decided_by = self._random.randint(first, self._sent[child])
            child.record_report(PolicyState(READY, QUEUE_PICKER, decided_by))

    @property
    def awaited(self) -> int:
        """The number of children that are kept, are not deactivated, and have not decided by what they were sent."""
        kept = [child for child in self.children.by_name.values() if not child.is_deactivated]
        return sum(child.report is None or child.report.generation < self._sent[child] for child in kept)


@pytest.mark.parametrize("seed", range(50))
async def test_as_many_children_are_awaited_as_have_not_decided_by_what_they_were_sent(seed):
    random = Random(seed)
    family = Family(random)
    for _ in range(60):
        if random.random() < 0.4:
            await family.reconcile()
        else:
            family.report()
        assert family.children.num_awaited == family.awaited
