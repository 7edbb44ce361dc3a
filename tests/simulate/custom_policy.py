"""A custom policy of the program (A52): it picks READY endpoints at random, with an object for each of its pickers."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from trxds.policies import ChannelControl, Complete, Decision, EndpointList, EndpointState, PickArgs, PolicyInputs
from trxds.policies import PolicyType as Policy

CUSTOM = "simulate.AnyReady"


class AnyReadyPicker:
    """Picks one of the endpoints that were READY."""

    def __init__(self, ready: tuple[EndpointState, ...], random: Random) -> None:
        self._ready = ready
        self._random = random

    def pick(self, call: PickArgs) -> Complete:
        return self._random.choice(self._ready).complete


class AnyReady:
    """The policy."""

    def __init__(self, channel_control: ChannelControl) -> None:
        def picker(ready: Mapping[Any, EndpointState]) -> AnyReadyPicker:
            return AnyReadyPicker(tuple(ready.values()), channel_control.random)

        self._endpoints = EndpointList(picker)

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        return self._endpoints.decide(inputs, now)


POLICIES = {CUSTOM: Policy(AnyReady)}
