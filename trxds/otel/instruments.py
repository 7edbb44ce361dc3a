"""Every instrument that there is: name, unit, labels and buckets, as gRPC's proposals have them.

Those that the proposals call experimental are off unless they are asked for (A79), and so are labels that are optional.
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
    """`optional` labels are recorded if they are asked for. `source` is the proposal; `on`: without being asked for."""

    name: str
    kind: Kind
    unit: str
    description: str
    labels: tuple[str, ...]
    source: str
    optional: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    on: bool = False


_CALL = (METHOD, TARGET)
_RETRIES = (1, 2, 3, 4, 5)
_BY_HOST = (LOCALITY, BACKEND)

ATTEMPT_STARTED = Instrument(
    "grpc.client.attempt.started",
    Kind.COUNTER,
    "{attempt}",
    "Attempts begun, also those that are not over.",
    _CALL,
    "A66",
    (CUSTOM,),
    on=True,
)
ATTEMPT_DURATION = Instrument(
    "grpc.client.attempt.duration",
    Kind.HISTOGRAM,
    "s",
    "From the begin of an attempt, before its pick, to its end.",
    (*_CALL, STATUS),
    "A66, A78, A89",
    (*_BY_HOST, CUSTOM),
    LATENCIES,
    on=True,
)
SENT = Instrument(
    "grpc.client.attempt.sent_total_compressed_message_size",
    Kind.HISTOGRAM,
    "By",
    "Bytes of all request messages of an attempt, as they are compressed.",
    (*_CALL, STATUS),
    "A66, A78, A89",
    (*_BY_HOST, CUSTOM),
    SIZES,
    on=True,
)
RECEIVED = Instrument(
    "grpc.client.attempt.rcvd_total_compressed_message_size",
    Kind.HISTOGRAM,
    "By",
    "Bytes of all response messages of an attempt, as they are compressed.",
    (*_CALL, STATUS),
    "A66, A78, A89",
    (*_BY_HOST, CUSTOM),
    SIZES,
    on=True,
)
CALL_DURATION = Instrument(
    "grpc.client.call.duration",
    Kind.HISTOGRAM,
    "s",
    "From the begin of a call to its end, over all its attempts.",
    (*_CALL, STATUS),
    "A66",
    (CUSTOM,),
    LATENCIES,
    on=True,
)
RETRIES = Instrument(
    "grpc.client.call.retries",
    Kind.HISTOGRAM,
    "{retry}",
    "Retries of a call that had some.",
    _CALL,
    "A96",
    (CUSTOM,),
    _RETRIES,
)
TRANSPARENT_RETRIES = Instrument(
    "grpc.client.call.transparent_retries",
    Kind.HISTOGRAM,
    "{transparent_retry}",
    "Transparent retries of a call that had some.",
    _CALL,
    "A96",
    (CUSTOM,),
    (*_RETRIES, 10),
)
HEDGES = Instrument(
    "grpc.client.call.hedges",
    Kind.HISTOGRAM,
    "{hedge}",
    "Hedges of a call that had some.",
    _CALL,
    "A96",
    (CUSTOM,),
    _RETRIES,
)
RETRY_DELAY = Instrument(
    "grpc.client.call.retry_delay",
    Kind.HISTOGRAM,
    "s",
    "Time of a call during which it had no attempt, between two of them.",
    _CALL,
    "A96",
    (CUSTOM,),
    LATENCIES,
)

CONNECTED = Instrument(
    "grpc.xds_client.connected",
    Kind.GAUGE,
    "{bool}",
    "1 if the xDS server is connected and answers, else 0.",
    (TARGET, SERVER),
    "A78, A57",
)
SERVER_FAILURE = Instrument(
    "grpc.xds_client.server_failure",
    Kind.COUNTER,
    "{failure}",
    "How often the xDS server went from healthy to unhealthy.",
    (TARGET, SERVER),
    "A78, A57",
)
VALID = Instrument(
    "grpc.xds_client.resource_updates_valid",
    Kind.COUNTER,
    "{resource}",
    "Resources that came and were valid, unchanged ones too.",
    (TARGET, SERVER, RESOURCE_TYPE),
    "A78",
)
INVALID = Instrument(
    "grpc.xds_client.resource_updates_invalid",
    Kind.COUNTER,
    "{resource}",
    "Resources that came and were invalid.",
    (TARGET, SERVER, RESOURCE_TYPE),
    "A78",
)
RESOURCES = Instrument(
    "grpc.xds_client.resources",
    Kind.GAUGE,
    "{resource}",
    "Resources that are watched, by their state.",
    (TARGET, AUTHORITY, CACHE_STATE, RESOURCE_TYPE),
    "A78, A88",
)

# A94 renames what A78 had as grpc.lb.pick_first.*; the old names are not recorded.
DISCONNECTIONS = Instrument(
    "grpc.subchannel.disconnections",
    Kind.COUNTER,
    "{disconnection}",
    "Connections to hosts that ended, or take no new calls.",
    (TARGET,),
    "A94",
    (BACKEND, LOCALITY, DISCONNECT),
)
ATTEMPTS_SUCCEEDED = Instrument(
    "grpc.subchannel.connection_attempts_succeeded",
    Kind.COUNTER,
    "{attempt}",
    "Attempts to connect to a host that succeeded.",
    (TARGET,),
    "A94",
    (BACKEND, LOCALITY),
)
ATTEMPTS_FAILED = Instrument(
    "grpc.subchannel.connection_attempts_failed",
    Kind.COUNTER,
    "{attempt}",
    "Attempts to connect to a host that failed.",
    (TARGET,),
    "A94",
    (BACKEND, LOCALITY),
)
OPEN_CONNECTIONS = Instrument(
    "grpc.subchannel.open_connections",
    Kind.UP_DOWN,
    "{connection}",
    "Connections to hosts that take new calls.",
    (TARGET,),
    "A94",
    (SECURITY, BACKEND, LOCALITY),
)

RR_FALLBACK = Instrument(
    "grpc.lb.wrr.rr_fallback",
    Kind.COUNTER,
    "{update}",
    "Updates of weights that fell back to round robin: fewer than two were known.",
    (TARGET,),
    "A78, A89",
    _BY_HOST,
)
NOT_YET_USABLE = Instrument(
    "grpc.lb.wrr.endpoint_weight_not_yet_usable",
    Kind.COUNTER,
    "{endpoint}",
    "Endpoints of each update that had not reported yet, or are in their blackout period.",
    (TARGET,),
    "A78, A89",
    _BY_HOST,
)
STALE = Instrument(
    "grpc.lb.wrr.endpoint_weight_stale",
    Kind.COUNTER,
    "{endpoint}",
    "Endpoints of each update whose last report was too old.",
    (TARGET,),
    "A78, A89",
    _BY_HOST,
)
WEIGHTS = Instrument(
    "grpc.lb.wrr.endpoint_weights",
    Kind.HISTOGRAM,
    "{weight}",
    "Weight of each endpoint at each update, 0 for an unknown one.",
    (TARGET,),
    "A78, A89",
    _BY_HOST,
)

ENFORCED = Instrument(
    "grpc.lb.outlier_detection.ejections_enforced",
    Kind.COUNTER,
    "{ejection}",
    "Outliers that were ejected.",
    (TARGET, DETECTION),
    "A91",
    (BACKEND,),
)
UNENFORCED_EJECTIONS = Instrument(
    "grpc.lb.outlier_detection.ejections_unenforced",
    Kind.COUNTER,
    "{ejection}",
    "Outliers that were found and not ejected.",
    (TARGET, DETECTION, UNENFORCED),
    "A91",
    (BACKEND,),
)

SESSIONS_ACTIVE = Instrument(
    "trxds.session.active",
    Kind.UP_DOWN,
    "{session}",
    "Blocks of `channel.session()` that are open.",
    (TARGET,),
    "trxds",
)
SESSIONS_CREATED = Instrument(
    "trxds.session.created",
    Kind.COUNTER,
    "{session}",
    "Blocks of `channel.session()` that were given their first host.",
    (TARGET,),
    "trxds",
)
SESSIONS_REPINNED = Instrument(
    "trxds.session.repinned",
    Kind.COUNTER,
    "{move}",
    "Sessions that went from one host to another, by the reason.",
    (TARGET, REASON),
    "trxds",
)
SESSIONS_LOST = Instrument(
    "trxds.session.lost",
    Kind.COUNTER,
    "{call}",
    "Calls whose session's host could not be used, and that failed without another one.",
    (TARGET, REASON),
    "trxds",
)
SESSION_PICKS = Instrument(
    "trxds.session.pick",
    Kind.COUNTER,
    "{pick}",
    "Picks of calls with a session filter: the cookie's host, a wait for it, or anybody else's.",
    (TARGET, RESULT, REASON),
    "trxds",
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
    *(SESSIONS_ACTIVE, SESSIONS_CREATED, SESSIONS_REPINNED, SESSIONS_LOST, SESSION_PICKS),
    RPC_DURATION,
)
