"""Names that the second edition retired, by room: a row holds for symbols of that room, and is a good name elsewhere.

The standard terms are in docs/glossary.md, and those of public names in CHANGELOG.
"""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Split a list of names."""
    return frozenset(text.split())


_XDS = words(
    """
    Ask Conversation Delta Dialect Failed Ignored Item Line PATIENCE QUIET Reading Share StateOfTheWorld Talk Told
    Trouble Update _Dialled _ask_next _compose _give_up _gone _hear _hear_all _let_go _mention _must_fall_back _owe
    _return _tell answers asked asked_for asked_of asking asks awaited converse due engage given heard impatient
    introduce kept_though_deleted leave leave_behind refuse release resource_told seen_by_watchers to_say told
    """
)
_RESOLVER_RESOURCES_CORE = words(
    """
    CallBegun Cell Changing Chosen ClusterOutcome Complaints Downstream Draw Drop Ejecting EjectionRules FilterUse
    Following Limit Limits LookUp Mailbox NameWatch Names Nesting Outlier Pace Passed Place ReportingOrder Settled
    Share Standing Unwrapped Weights _Everybody _adopt _begin _instead _look _settle as_asked aside begin_anew
    begin_change blame bound chain complaint draw early_limit early_route_timeouts end_change final_limit given_up
    has keep let_go letter lost maker may_change nudge present put quiet resolve_again says settled whole withdraw
    wrong xds_answered xds_left xds_requested
    """
)
_LB = words(
    """
    Always ByCluster ByHeader ConnectedEndpoints CountedRpcs Counting Draw Drops Explains Fails Health Host Hosts
    InCookie InFlight InHeader Inputs Limited Limits Move Noted QUEUEING RETENTION Record Report Reported Rotation
    Said Sample Seen Surroundings ToHost Tree Turns Waits Waking _Patience _forget _judged _mark_warm _race actual
    claim covers eject ejected everybody failing find having heard hold judge keep kept let_go limits look
    match missed over picked predecessor revive speaker speaks survey tells wait wake warm wish wishes
    """
)
_CLIENT = words(
    """
    Answer Caller Control Dump Forwarded Hedge Hedges OpenCall Origin Replies Resolving Retries Shared Telling
    Throttle Xds _Block _Side _backed_off _refusals _resemble _room _said _too_late _unseen abandon adopt ask
    at_rest ending finish headers left on_stream orphan other_state other_than read_pause refusal say settle sleep
    too_open wake watch within woken
    """
)
_TRANSPORT = words(
    """
    Answered Answers Awaits Block Broken Engine FixedFields Link Listening MANY MOMENT OpenStream StreamBroken Turns
    Unfinished Violation WindowOpened _HOW_FAR _SOON _TURN _Woken _give_back _held call_reader complaint credit
    disturbed fixed given_back guest heed hungry in_line lent line look opening_room over owed passing read_for
    receive_only retire room serve wait whole widen
    """
)
_EDGES = words(
    """
    Ask Asked Door Ear Guests Heard Look MOST Refusal TwiceRead Wanted _meant _strangers done second speakable told
    """
)
RETIRED: dict[str, frozenset[str]] = {
    "xds": _XDS,
    "resolver": _RESOLVER_RESOURCES_CORE,
    "resources": _RESOLVER_RESOURCES_CORE,
    "core": _RESOLVER_RESOURCES_CORE,
    "lb": _LB,
    "session_affinity": _LB,
    "client": _CLIENT,
    "sync": _CLIENT,
    "transport": _TRANSPORT,
    "server": _TRANSPORT,
    "admin": _EDGES,
    "cli": _EDGES,
    "otel": _EDGES,
    "generate": _EDGES,
    "interop": _EDGES,
}

# Kept, because here the word has its ordinary or the field's meaning.
KEPT = frozenset(
    {
        ("xds/resource.py", "awaited"),
        ("xds/resource_type_state.py", "answers"),
        ("xds/resource_type_state.py", "due"),  # a time
        ("resolver/http_filters.py", "chain"),  # a chain of HTTP filters (A39)
        ("resolver/route_explanation.py", "draw"),  # a field of `trxds explain --json`
        ("resolver/route_explanation.py", "may_change"),  # likewise
        ("resources/filters.py", "chain"),
        ("resources/matchers.py", "present"),  # of a header (A28)
        ("core/conflating_queue.py", "put"),
        ("core/observe.py", "settled"),  # a public event
        ("lb/outlier_detection/outlier_algorithms.py", "eject"),  # A50's own term
        ("lb/subtree.py", "eject"),
        ("lb/subtree.py", "ejected"),
        ("lb/policy_node_snapshot.py", "ejected"),
        ("lb/policy.py", "ejected"),
        ("lb/policy_node_snapshot.py", "warm"),  # a field of the state stream
        ("client/call_credentials.py", "headers"),
        ("transport/stream_messages.py", "wait"),
        ("transport/waiter.py", "wait"),
        ("transport/waiter.py", "_Woken"),
        ("server/server.py", "serve"),  # public
        ("cli/demo/screen.py", "done"),
        ("cli/demo/verdict.py", "done"),
    }
)

FORBIDDEN = words("told telling petiole aside letter letters guest guests surroundings wish wishes")
"""Parts of names that have no standard use in any room."""
