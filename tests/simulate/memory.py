"""What a client keeps: memory after many cycles is that after one, in a channel and beyond it."""

from __future__ import annotations

import gc
from collections import Counter

from trxds.lb.ring_hash.ring import Ring

from .world import World

SLACK = 250  # objects of a class, or entries: meshes differ in size; a leak for each call leaves many more
_CONTAINERS = (dict, list, set, tuple)


def objects_alive() -> Counter[str]:
    """Return how many objects of trxds's classes there are, by class; frozen values of modules are among them."""
    gc.collect()
    return Counter(_name(each) for each in gc.get_objects() if type(each).__module__.startswith("trxds."))


def sizes() -> Counter[str]:
    """Return the objects of each class, and the sizes of the containers that are their attributes."""
    gc.collect()
    found = Counter[str]()
    for each in gc.get_objects():
        # What simulations and control planes record grows by itself.
        if type(each).__module__.startswith("trxds.") and not type(each).__module__.startswith("trxds.testing"):
            found[_name(each)] += 1
            for attribute, value in _attributes(each):
                if isinstance(value, _CONTAINERS) and not isinstance(each, Ring):
                    found[f"{_name(each)}.{attribute}"] += len(value)
    return found


def _attributes(each: object):
    slots = [name for kind in type(each).__mro__ for name in getattr(kind, "__slots__", ())]
    yield from ((name, getattr(each, name, None)) for name in slots if name not in ("__dict__", "__weakref__"))
    yield from getattr(each, "__dict__", {}).items()


def _name(each: object) -> str:
    return f"{type(each).__module__}.{type(each).__qualname__}"


def a_channel_keeps_no_more_after_each_storm(world: World, first: Counter[str]) -> None:
    """At the end of a later calm a channel has about the objects that it had after the first one."""
    more = Counter({name: count for name, count in (sizes() - first).items() if count > SLACK})
    if more:
        world.violated(
            "memory_is_that_of_the_first_run", f"since the first storm there are more: {more.most_common(5)}"
        )


def memory_is_that_of_the_first_run(before: Counter[str], after: Counter[str]) -> list[str]:
    """Return what says that objects of an earlier run are alive; both counts are taken between runs."""
    more = after - before
    return (
        [f"memory_is_that_of_the_first_run: {sum(more.values())} objects more: {more.most_common(5)}"] if more else []
    )
