"""A cancel scope and its holders: what C++ does with reference counts, visible in the task tree.

A cluster must live as long as a route table or an uncommitted RPC may still send to it
(A31, A60). Each of them takes a hold; whoever lets the last one go cancels the scope, and the
task inside it ends in the nursery of its owner. Release is plain, so a cancelled task can do it.
"""

from __future__ import annotations

import trio


class Lifetime:
    """`scope` is open until the last hold is released; born with one hold, its maker's.

    With a `registry` the name is listed there until that same moment. A name that returns
    afterwards is another Lifetime, even if the task of the first has not ended yet.
    """

    __slots__ = ("_holds", "_registry", "ended", "maker", "name", "scope")

    def __init__(self, name: str, registry: dict[str, Lifetime] | None = None) -> None:
        if registry is not None:
            if name in registry:
                raise ValueError(f"{name!r} is alive; hold it, do not make it again")
            registry[name] = self
        self.name = name
        self.scope = trio.CancelScope()
        self.ended = False
        self._registry = registry
        self._holds = 0
        self.maker = self.hold()

    def hold(self) -> Hold:
        """Keep this alive; `RuntimeError` if it has ended already."""
        self.acquire()
        return Hold(self)

    def acquire(self) -> None:
        """The same for who is sure to call `release` once, and needs no `Hold` to know whether it did."""
        if self.ended:
            raise RuntimeError(f"{self.name!r} has ended; make a new Lifetime of that name")
        self._holds += 1

    def release(self) -> None:
        """End what one `keep` began; the last one ends the scope. Plain."""
        self._holds -= 1
        if not self._holds:
            self._end()

    def _end(self) -> None:
        self.ended = True
        if self._registry is not None:
            del self._registry[self.name]
        self.scope.cancel(reason=f"the last holder of {self.name!r} left")

    def __repr__(self) -> str:
        return f"<Lifetime {self.name} {'ended' if self.ended else f'{self._holds} holds'}>"


class Hold:
    """One holder's share of a Lifetime. Any task may release it; once counts, again is nothing."""

    __slots__ = ("_lifetime",)

    def __init__(self, lifetime: Lifetime) -> None:
        self._lifetime: Lifetime | None = lifetime

    def release(self) -> None:
        lifetime, self._lifetime = self._lifetime, None
        if lifetime is not None:
            lifetime.release()
