"""`trxds.aio` and `trxds.sync` have the public methods of `trxds`, with the same parameters, defaults and documents."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest

import trxds
import trxds.aio
import trxds.sync
from trxds import CallOptions

CLASSES = ["BoundCalls", "Call", "Channel", "Method", "Session", "SessionPool"]
BOTH = pytest.mark.parametrize("facade", [trxds.aio, trxds.sync], ids=["aio", "sync"])

FOR_TRIO_ONLY = {"admin_view", "closed_error", "observed_by"}  # they take or return objects of Trio's thread
# A thread would wait in the iterator of states for ever.
MISSING = {trxds.aio: FOR_TRIO_ONLY, trxds.sync: FOR_TRIO_ONLY | {"states"}}
# Their answer comes from Trio's thread, so an asyncio task awaits it.
AWAITED = {"try_to_connect", "release"}


def public(cls):
    return {name for name, _ in inspect.getmembers(cls) if not name.startswith("_")}


def parameters(method):
    """Names, kinds and defaults; the options of a call by their names, in either way to write them."""
    of_method = list(inspect.signature(method).parameters.values())
    named = [(each.name, each.kind, each.default) for each in of_method if each.name not in CallOptions.__annotations__]
    takes_options = len(named) < len(of_method) or "options" in {name for name, _, _ in named}
    return [each for each in named if each[0] != "options"], takes_options


def methods(facade):
    for name in CLASSES:
        original, copy = getattr(trxds, name), getattr(facade, name)
        for method in sorted(public(original) - MISSING[facade]) + ["__call__"] * (name == "Method"):
            yield original, copy, method


@BOTH
def test_a_facade_has_the_public_methods_and_attributes_of_trxds(facade):
    missing = {f"{name}.{each}" for name in CLASSES for each in public(getattr(trxds, name)) - MISSING[facade]} - {
        f"{name}.{each}" for name in CLASSES for each in public(getattr(facade, name))
    }
    assert missing == set()


@BOTH
def test_a_facade_has_the_parameters_of_trxds(facade):
    different = {
        f"{copy.__name__}.{name}"
        for original, copy, name in methods(facade)
        if callable(getattr(original, name)) and parameters(getattr(original, name)) != parameters(getattr(copy, name))
    }
    assert different == set()


@BOTH
def test_every_method_of_a_facade_has_a_docstring(facade):
    assert [f"{copy.__name__}.{name}" for _, copy, name in methods(facade) if not getattr(copy, name).__doc__] == []


@BOTH
def test_a_channel_of_a_facade_is_opened_with_the_parameters_of_trxds(facade):
    assert inspect.signature(facade.open_channel) == inspect.signature(trxds.open_channel)


def test_what_is_awaited_in_trio_is_awaited_in_asyncio():
    assert {
        name
        for original, copy, name in methods(trxds.aio)
        if inspect.iscoroutinefunction(getattr(original, name)) != inspect.iscoroutinefunction(getattr(copy, name))
    } == AWAITED


class Opened(Exception):
    """Carries what a facade has opened."""


@BOTH
@pytest.mark.parametrize(
    ("of", "name"),
    [
        ("Channel", "session"),
        ("Channel", "sessions"),
        ("Channel", "rebalance_sessions"),
        ("Session", "moving"),
        ("SessionPool", "session"),
    ],
)
def test_a_facade_passes_the_arguments_of_a_block_on(facade, of, name, monkeypatch):
    def bridge(hand_over, opening):
        raise Opened(opening)

    copy = getattr(facade, of)(SimpleNamespace(), SimpleNamespace(**{name: lambda **options: None}))
    monkeypatch.setattr(facade.channel if of == "Channel" else facade.session, "ContextBridge", bridge)
    _, *takes = inspect.signature(getattr(getattr(trxds, of), name)).parameters.values()
    args = tuple(object() for each in takes if each.kind is not each.KEYWORD_ONLY)
    options = {each.name: object() for each in takes if each.kind is each.KEYWORD_ONLY}
    block = getattr(copy, name)(*args, **options)
    with pytest.raises(Opened) as opened:
        block.__enter__() if facade is trxds.sync else block.__aenter__().send(None)
    assert (opened.value.args[0].args, opened.value.args[0].keywords) == (args, options)
