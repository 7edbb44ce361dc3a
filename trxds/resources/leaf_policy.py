"""The leaf policies of a Cluster, which choose among endpoints (A42, A48, A58, A62)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from msgspec import Struct

from . import protos
from .experiments import Experiments
from .extension import Extension
from .orca import is_supported_metric
from .slow_start import SlowStart, parse_slow_start
from .units import parse_duration_or, wrapped_number_or
from .validation_errors import ValidationErrors

MIN_RING_SIZE = 1024
MAX_RING_SIZE = 4096  # the default cap on rings, below what a resource may ask for (A42)
RING_SIZE_LIMIT = 8 * 1024 * 1024
DEFAULT_CHOICE_COUNT = 2
MAX_CHOICE_COUNT = 10
MIN_UPDATE_PERIOD = 0.1  # seconds between updates of the weights (A58)


class LbPolicyConfig:
    """The base class of checked policy configurations; `policy` is the policy's name in a service config.

    A policy that needs no other configuration is configured by this value (`lb/config_builder.py`). It has no fields,
    because those that programs make are dataclasses and the others structs (docs/adr/0009-values-are-structs.md).
    """

    __slots__ = ()

    if TYPE_CHECKING:  # a subclass has it as a constant or as a field

        @property
        def policy(self) -> str: ...


StructPolicy: TypeAlias = Callable[[Extension], LbPolicyConfig | None]
"""The parser of a policy that a TypedStruct names (A52)."""


@dataclass(frozen=True, slots=True)
class RoundRobin(LbPolicyConfig):
    """A policy that uses the endpoints in turn."""

    policy: ClassVar[str] = "round_robin"
    slow_start: SlowStart | None = None


@dataclass(frozen=True, slots=True)
class PickFirst(LbPolicyConfig):
    """A policy that uses the first endpoint that connects; with `shuffle` the list is shuffled first (A62)."""

    policy: ClassVar[str] = "pick_first"
    shuffle: bool = False


@dataclass(frozen=True, slots=True)
class RingHash(LbPolicyConfig):
    """A policy that sends equal hashes to the same endpoint; the sizes are limits of the ring's entries (A42).

    `header` is the one to hash if no route has a hash policy: only a service config sets it (A76).
    """

    policy: ClassVar[str] = "ring_hash_experimental"
    min_size: int = MIN_RING_SIZE
    max_size: int = RING_SIZE_LIMIT
    header: str = ""


@dataclass(frozen=True, slots=True)
class LeastRequest(LbPolicyConfig):
    """A policy that draws `choice_count` endpoints and takes the one with the fewest RPCs (A48)."""

    policy: ClassVar[str] = "least_request_experimental"
    choice_count: int = DEFAULT_CHOICE_COUNT
    slow_start: SlowStart | None = None


class ClientSideWeightedRoundRobin(LbPolicyConfig, Struct, frozen=True):
    """A policy that uses the endpoints in turn, weighted by their load reports (A58). Times are in seconds.

    A weight counts once reports have come for `blackout`, until none came for `expiration`. `error_penalty` is what a
    share of errors adds to the utilization. Reports come with the responses, or every `reporting_period` out of band
    (A51). The utilization is the greatest of `metrics`, or the application's or the CPU's without any of them (A114).
    """

    policy: ClassVar[str] = "weighted_round_robin"
    blackout: float = 10.0
    expiration: float = 180.0
    update_period: float = 1.0
    error_penalty: float = 1.0
    reporting_period: float | None = None
    metrics: tuple[str, ...] = ()
    slow_start: SlowStart | None = None


# -- from load_balancing_policy


def parse_message(config: Extension, message_class: Any) -> Any | None:
    """Return the message of a policy's configuration; None (and a problem) for bad bytes."""
    return config.parse(message_class, f"can't decode {message_class.DESCRIPTOR.name} LB policy config")


def round_robin(config: Extension, experiments: Experiments) -> RoundRobin | None:
    message = parse_message(config, protos.RoundRobin)
    return RoundRobin(_slow_start(message, experiments, config.problems)) if message is not None else None


def pick_first(config: Extension, experiments: Experiments) -> PickFirst | None:
    message = parse_message(config, protos.PickFirst)
    return PickFirst(message.shuffle_address_list) if message is not None else None


def ring_hash(config: Extension, experiments: Experiments) -> RingHash | None:
    message = parse_message(config, protos.RingHash)
    if message is None:
        return None
    # A42 supports XX_HASH only. That is also the default of this message, and the zero value of the older field.
    known = (protos.RingHash.DEFAULT_HASH, protos.RingHash.XX_HASH)
    return _ring(message, message.hash_function in known, config.problems)


def least_request(config: Extension, experiments: Experiments) -> LeastRequest | None:
    message = parse_message(config, protos.LeastRequest)
    return _choices(message, experiments, config.problems) if message is not None else None


def client_side_weighted_round_robin(
    config: Extension, experiments: Experiments
) -> ClientSideWeightedRoundRobin | None:
    message = parse_message(config, protos.ClientSideWeightedRoundRobin)
    if message is None:
        return None
    penalty = wrapped_number_or(1.0, message, "error_utilization_penalty")
    if penalty < 0:
        config.problems.at("error_utilization_penalty").add("value must be non-negative")
    elif not math.isfinite(penalty):  # every weight would be 0 or NaN
        config.problems.at("error_utilization_penalty").add("value must be finite")
    return ClientSideWeightedRoundRobin(
        parse_duration_or(10.0, message, "blackout_period", config.problems),
        parse_duration_or(180.0, message, "weight_expiration_period", config.problems),
        # A58: a shorter period is raised and not rejected; each update reads the weights of all hosts.
        max(parse_duration_or(1.0, message, "weight_update_period", config.problems), MIN_UPDATE_PERIOD),
        penalty,
        parse_duration_or(10.0, message, "oob_reporting_period", config.problems)
        if message.enable_oob_load_report.value
        else None,
        _metric_names(message, config.problems) if experiments.custom_metrics else (),
        _slow_start(message, experiments, config.problems),
    )


def _metric_names(message: Any, problems: ValidationErrors) -> tuple[str, ...]:
    names = tuple(message.metric_names_for_computing_utilization)
    for index, name in enumerate(names):
        if not is_supported_metric(name):  # A114 lists them
            problems.at(f"metric_names_for_computing_utilization[{index}]").add(f'unsupported metric name "{name}"')
    return names


def _slow_start(message: Any, experiments: Experiments, problems: ValidationErrors) -> SlowStart | None:
    return parse_slow_start(message, problems) if experiments.slow_start else None


# -- from a cluster's older fields


def cluster_ring_hash(cluster: Any, problems: ValidationErrors) -> RingHash:
    message = cluster.ring_hash_lb_config
    known = message.hash_function == protos.Cluster.RingHashLbConfig.XX_HASH
    return _ring(message, known, problems.at("ring_hash_lb_config"))


def cluster_round_robin(cluster: Any, experiments: Experiments, problems: ValidationErrors) -> RoundRobin:
    return RoundRobin(_slow_start(cluster.round_robin_lb_config, experiments, problems.at("round_robin_lb_config")))


def cluster_least_request(cluster: Any, experiments: Experiments, problems: ValidationErrors) -> LeastRequest:
    return _choices(cluster.least_request_lb_config, experiments, problems.at("least_request_lb_config"))


# -- both forms have the same fields


def _ring(message: Any, known_hash: bool, problems: ValidationErrors) -> RingHash:
    if not known_hash:
        problems.at("hash_function").add("unsupported value (must be XX_HASH)")
    max_size = _size(message, "maximum_ring_size", RING_SIZE_LIMIT, problems)
    min_size = _size(message, "minimum_ring_size", MIN_RING_SIZE, problems)
    # The configured sizes are checked. The client's cap (A42) applies to both later, and rejects nothing.
    if min_size > max_size:
        problems.at("minimum_ring_size").add("cannot be greater than maximum_ring_size")
    return RingHash(min_size, max_size)


def _size(message: Any, field: str, default: int, problems: ValidationErrors) -> int:
    size = wrapped_number_or(default, message, field)
    if not 1 <= size <= RING_SIZE_LIMIT:
        problems.at(field).add(f"value must be in the range [1, {RING_SIZE_LIMIT}]")
    return size


def _choices(message: Any, experiments: Experiments, problems: ValidationErrors) -> LeastRequest:
    choices = wrapped_number_or(DEFAULT_CHOICE_COUNT, message, "choice_count")
    if choices < DEFAULT_CHOICE_COUNT:
        problems.at("choice_count").add(f"must be at least {DEFAULT_CHOICE_COUNT}")
    # A48: a high number costs more than it is worth, so it is capped.
    return LeastRequest(min(choices, MAX_CHOICE_COUNT), _slow_start(message, experiments, problems))
