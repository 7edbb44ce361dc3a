"""Every instrument that there is: name, unit, labels and buckets, as gRPC's proposals have them.

An instrument that its proposal calls experimental is off by default (A79), and so is an optional label.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

TARGET = "grpc.target"
METHOD = "grpc.method"
STATUS = "grpc.status"
LOCALITY = "grpc.lb.locality"
BACKEND = "grpc.lb.backend_service"
CUSTOM = "grpc.client.call.custom"
SERVER = "grpc.xds.server"
AUTHORITY = "grpc.xds.authority"
CACHE_STATE = "grpc.xds.cache_state"
RESOURCE_TYPE = "grpc.xds.resource_type"
DISCONNECT = "grpc.disconnect_error"
SECURITY = "grpc.security_level"
DETECTION = "grpc.lb.outlier_detection.detection_method"
UNENFORCED = "grpc.lb.outlier_detection.unenforced_reason"
REASON = "reason"
RESULT = "result"

OPTIONAL_LABELS = frozenset({LOCALITY, BACKEND, CUSTOM, DISCONNECT, SECURITY})
"""The labels that `telemetry(optional_labels=...)` may switch on."""

# A66's buckets, in seconds.
LATENCIES = (
    *(0, 0.00001, 0.00005, 0.0001, 0.0003, 0.0006, 0.0008, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008),
    *(0.01, 0.013, 0.016, 0.02, 0.025, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5),
    *(0.65, 0.8, 1, 2, 5, 10, 20, 50, 100),
)
# A66's, in bytes.
SIZES = (0, 1024, 2048, 4096, 16384, *(2**power for power in (16, 18, 20, 22, 24, 26, 28, 30, 32)))


class Kind(enum.StrEnum):
    COUNTER = "counter"
    UP_DOWN = "up-down counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Instrument:
    """The definition of one instrument.

    `optional` labels are recorded only if the program enables them. `source` is the proposal that defines the
    instrument.
    """

    name: str
    kind: Kind
    unit: str
    description: str
    labels: tuple[str, ...]
    source: str
    optional: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    is_enabled_by_default: bool = False


_BY_HOST = (LOCALITY, BACKEND)

# -- calls and their attempts


def _of_attempt(name: str, unit: str, description: str, buckets: tuple[float, ...]) -> Instrument:
    labels, optional = (METHOD, TARGET, STATUS), (*_BY_HOST, CUSTOM)
    name = f"grpc.client.attempt.{name}"
    return Instrument(
        name, Kind.HISTOGRAM, unit, description, labels, "A66, A78, A89", optional, buckets, is_enabled_by_default=True
    )


ATTEMPT_STARTED = Instrument(
    "grpc.client.attempt.started",
    Kind.COUNTER,
    "{attempt}",
    "Attempts begun, also those that are not over.",
    (METHOD, TARGET),
    "A66",
    (CUSTOM,),
    is_enabled_by_default=True,
)
ATTEMPT_DURATION = _of_attempt("duration", "s", "From the begin of an attempt, before its pick, to its end.", LATENCIES)
SENT = _of_attempt(
    "sent_total_compressed_message_size",
    "By",
    "Bytes of all request messages of an attempt, as they are compressed.",
    SIZES,
)
RECEIVED = _of_attempt(
    "rcvd_total_compressed_message_size",
    "By",
    "Bytes of all response messages of an attempt, as they are compressed.",
    SIZES,
)
CALL_DURATION = Instrument(
    "grpc.client.call.duration",
    Kind.HISTOGRAM,
    "s",
    "From the begin of a call to its end, over all its attempts.",
    (METHOD, TARGET, STATUS),
    "A66",
    (CUSTOM,),
    LATENCIES,
    is_enabled_by_default=True,
)


def _of_retries(name: str, unit: str, description: str, buckets: tuple[float, ...] = (1, 2, 3, 4, 5)) -> Instrument:
    name = f"grpc.client.call.{name}"
    return Instrument(name, Kind.HISTOGRAM, unit, description, (METHOD, TARGET), "A96", (CUSTOM,), buckets)


RETRIES = _of_retries("retries", "{retry}", "Retries of a call that had some.")
TRANSPARENT_RETRIES = _of_retries(
    "transparent_retries",
    "{transparent_retry}",
    "Transparent retries of a call that had some.",
    (1, 2, 3, 4, 5, 10),
)
HEDGES = _of_retries("hedges", "{hedge}", "Hedges of a call that had some.")
RETRY_DELAY = _of_retries(
    "retry_delay",
    "s",
    "Time of a call during which it had no attempt, between two of them.",
    LATENCIES,
)

# -- the xDS client


def _of_server(name: str, kind: Kind, unit: str, description: str) -> Instrument:
    return Instrument(f"grpc.xds_client.{name}", kind, unit, description, (TARGET, SERVER), "A78, A57")


def _of_updates(name: str, description: str) -> Instrument:
    name, labels = f"grpc.xds_client.resource_updates_{name}", (TARGET, SERVER, RESOURCE_TYPE)
    return Instrument(name, Kind.COUNTER, "{resource}", description, labels, "A78")


CONNECTED = _of_server("connected", Kind.GAUGE, "{bool}", "1 if the xDS server is connected and answers, else 0.")
SERVER_FAILURE = _of_server(
    "server_failure",
    Kind.COUNTER,
    "{failure}",
    "How often the xDS server went from healthy to unhealthy.",
)
VALID = _of_updates("valid", "Resources that came and were valid, unchanged ones too.")
INVALID = _of_updates("invalid", "Resources that came and were invalid.")
RESOURCES = Instrument(
    "grpc.xds_client.resources",
    Kind.GAUGE,
    "{resource}",
    "Resources that are watched, by their state.",
    (TARGET, AUTHORITY, CACHE_STATE, RESOURCE_TYPE),
    "A78, A88",
)

# -- connections to hosts


# A94 renames what A78 had as grpc.lb.pick_first.*; the old names are not recorded.
def _of_subchannel(
    name: str, unit: str, description: str, optional: tuple[str, ...] = (BACKEND, LOCALITY), kind: Kind = Kind.COUNTER
) -> Instrument:
    return Instrument(f"grpc.subchannel.{name}", kind, unit, description, (TARGET,), "A94", optional)


DISCONNECTIONS = _of_subchannel(
    "disconnections",
    "{disconnection}",
    "Connections to hosts that ended, or take no new calls.",
    (BACKEND, LOCALITY, DISCONNECT),
)
ATTEMPTS_SUCCEEDED = _of_subchannel(
    "connection_attempts_succeeded", "{attempt}", "Attempts to connect to a host that succeeded."
)
ATTEMPTS_FAILED = _of_subchannel(
    "connection_attempts_failed", "{attempt}", "Attempts to connect to a host that failed."
)
OPEN_CONNECTIONS = _of_subchannel(
    "open_connections",
    "{connection}",
    "Connections to hosts that take new calls.",
    (SECURITY, BACKEND, LOCALITY),
    Kind.UP_DOWN,
)

# -- policies


def _of_weights(name: str, unit: str, description: str, kind: Kind = Kind.COUNTER) -> Instrument:
    return Instrument(f"grpc.lb.wrr.{name}", kind, unit, description, (TARGET,), "A78, A89", _BY_HOST)


RR_FALLBACK = _of_weights(
    "rr_fallback", "{update}", "Updates of weights that fell back to round robin: fewer than two were known."
)
NOT_YET_USABLE = _of_weights(
    "endpoint_weight_not_yet_usable",
    "{endpoint}",
    "Endpoints of each update that had not reported yet, or are in their blackout period.",
)
STALE = _of_weights("endpoint_weight_stale", "{endpoint}", "Endpoints of each update whose last report was too old.")
WEIGHTS = _of_weights(
    "endpoint_weights", "{weight}", "Weight of each endpoint at each update, 0 for an unknown one.", Kind.HISTOGRAM
)


def _of_outliers(name: str, description: str, *labels: str) -> Instrument:
    name, labels = f"grpc.lb.outlier_detection.{name}", (TARGET, DETECTION, *labels)
    return Instrument(name, Kind.COUNTER, "{ejection}", description, labels, "A91", (BACKEND,))


ENFORCED = _of_outliers("ejections_enforced", "Outliers that were ejected.")
UNENFORCED_EJECTIONS = _of_outliers("ejections_unenforced", "Outliers that were found and not ejected.", UNENFORCED)

# -- what no proposal has: sessions, copies of calls, and OpenTelemetry's own name


def _of_sessions(name: str, unit: str, description: str, *labels: str, kind: Kind = Kind.COUNTER) -> Instrument:
    return Instrument(f"trxds.session.{name}", kind, unit, description, (TARGET, *labels), "trxds")


SESSIONS_ACTIVE = _of_sessions("active", "{session}", "Blocks of `channel.session()` that are open.", kind=Kind.UP_DOWN)
SESSIONS_CREATED = _of_sessions(
    "created", "{session}", "First hosts of blocks of `channel.session()`; a block with several cookies has several."
)
SESSIONS_REPINNED = _of_sessions(
    "repinned", "{move}", "Sessions that went from one host to another, by the reason.", REASON
)
SESSIONS_DRAINING = _of_sessions(
    "draining", "{session}", "Sessions whose host was declared DRAINING while they were on it."
)
SESSIONS_LOST = _of_sessions(
    "lost",
    "{call}",
    "Calls whose session's host could not be used, and that failed without another one.",
    REASON,
)
SESSION_PICKS = _of_sessions(
    "pick",
    "{pick}",
    "Picks of calls with a session filter: the cookie's host, a wait for it, or anybody else's.",
    RESULT,
    REASON,
)

MIRRORED_CALLS = Instrument(
    "trxds.mirror.calls",
    Kind.COUNTER,
    "{call}",
    "Copies of calls for a mirror cluster, by their result, and by their status if they have one.",
    (TARGET, RESULT, STATUS),
    "trxds",
    (BACKEND,),
)

RPC_DURATION = Instrument(
    "rpc.client.call.duration",
    Kind.HISTOGRAM,
    "s",
    "The same as grpc.client.call.duration, by OpenTelemetry's own conventions.",
    ("rpc.system.name", "rpc.method", "rpc.response.status_code", "server.address", "server.port", "error.type"),
    "OpenTelemetry",
    buckets=LATENCIES,
)

INSTRUMENTS: tuple[Instrument, ...] = (
    *(ATTEMPT_STARTED, ATTEMPT_DURATION, SENT, RECEIVED, CALL_DURATION),
    *(RETRIES, TRANSPARENT_RETRIES, HEDGES, RETRY_DELAY),
    *(CONNECTED, SERVER_FAILURE, VALID, INVALID, RESOURCES),
    *(DISCONNECTIONS, ATTEMPTS_SUCCEEDED, ATTEMPTS_FAILED, OPEN_CONNECTIONS),
    *(RR_FALLBACK, NOT_YET_USABLE, STALE, WEIGHTS),
    *(ENFORCED, UNENFORCED_EJECTIONS),
    *(SESSIONS_ACTIVE, SESSIONS_CREATED, SESSIONS_REPINNED, SESSIONS_DRAINING, SESSIONS_LOST, SESSION_PICKS),
    MIRRORED_CALLS,
    RPC_DURATION,
)
"""Every instrument, in the order of `docs/reference/metrics.md`."""
