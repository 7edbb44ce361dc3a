"""A `Lifetime` is a cancel scope with a reference count, so that a shared task ends with its last holder.

A cluster must live as long as a route table or an uncommitted RPC may still send to it (A31, A60). Each of them has a
hold; the release of the last one cancels the scope, and the task inside it ends in the nursery of its owner. `release`
is synchronous, so a cancelled task can call it.
"""

from __future__ import annotations

import trio
from msgspec import Struct


class Lifetime:
    """A lifetime's `scope` is open until the last hold is released; it begins with one hold, `initial_hold`.

    With a `registry` the name is in there until that same moment. A later Lifetime of the same name is another one,
    even if the task of the first has not ended yet.
    """

    __slots__ = ("_holds", "_registry", "ended", "initial_hold", "name", "scope")

    def __init__(self, name: str, registry: dict[str, Lifetime] | None = None) -> None:
        if registry is not None:
            # Two lifetimes of one name would be two tasks for one thing, such as a cluster.
            if name in registry:
                raise ValueError(f"{name!r} is alive; take a hold of it instead of another Lifetime")
            registry[name] = self
        self.name = name
        self.scope = trio.CancelScope()
        self.ended = False
        self._registry = registry
        self._holds = 0
        self.initial_hold = self.hold()

    def hold(self) -> Hold:
        """Return a new hold, which keeps this alive; `RuntimeError` if it has ended already."""
        self.acquire()
        return Hold(self)

    def acquire(self) -> Lifetime:
        """Keep this alive until one call of `release`, and return it; `RuntimeError` if it has ended already."""
        if self.ended:
            raise RuntimeError(f"{self.name!r} has ended; make a new Lifetime of that name")
        self._holds += 1
        return self

    def release(self) -> None:
        """Release one hold; the last release cancels the scope. Synchronous."""
        self._holds -= 1
        if self._holds:
            return
        self.ended = True
        if self._registry is not None:
            del self._registry[self.name]
        self.scope.cancel(reason=f"the last holder of {self.name!r} left")

    def __repr__(self) -> str:
        return f"<Lifetime {self.name} {'ended' if self.ended else f'{self._holds} holds'}>"


class Hold(Struct, eq=False):
    """A `Hold` keeps a Lifetime alive until `release`, which any task may call; a second call has no effect."""

    _lifetime: Lifetime | None

    def release(self) -> None:
        """Release the hold. Synchronous and idempotent."""
        lifetime, self._lifetime = self._lifetime, None
        if lifetime is not None:
            lifetime.release()
