"""What the xDS client tells those who watch it (`ground/observe.py`): messages and resources in a few plain words."""

from __future__ import annotations

from typing import Any

from trxds.core.observe import XdsRequest, XdsResource, XdsResponse
from trxds.core.observers import Observers

from .discovery_response import ParsedResponse
from .resource import CacheState, Resource
from .resource_names import authority_of

# Those that A78 and A88 tell from the same without an older version in use.
_MAY_BE_CACHED = frozenset({CacheState.NACKED, CacheState.DOES_NOT_EXIST, CacheState.RECEIVED_ERROR})


class XdsTelemetry:
    """Of one server: what is said to it and what it says."""

    def __init__(self, server: str, observers: Observers) -> None:
        self._server = server
        self._observers = observers
        self._answered: dict[str, str] = {}  # by type, the nonce that was answered last on this stream

    def connected(self) -> None:
        self._answered.clear()
        self._observers.xds_connected(self._server)

    def failed(self, reason: str) -> None:
        self._observers.xds_failed(self._server, reason)

    def left(self) -> None:
        self._observers.xds_disconnected(self._server)

    def requested(self, request: Any) -> None:
        """A request of either protocol has been handed over."""
        if self._observers.active:
            self._observers.xds_request_sent(self._in_words(request))

    def answered(self, reading: ParsedResponse) -> None:
        """A response was read; who has judged it is us."""
        if self._observers.active:
            self._observers.xds_response_received(_response(self._server, reading))

    def _in_words(self, request: Any) -> XdsRequest:
        type, nonce = _name(request.type_url), request.response_nonce
        # Who asks for something else says the last nonce again, but for delta.
        answers = bool(nonce) and self._answered.get(type) != nonce
        self._answered[type] = nonce
        error = request.error_detail.message if request.HasField("error_detail") else ""
        if hasattr(request, "resource_names"):
            names, removed, version = tuple(request.resource_names), (), request.version_info
        else:
            names, removed = tuple(request.resource_names_subscribe), tuple(request.resource_names_unsubscribe)
            version = ""
        return XdsRequest(self._server, type, version, nonce, names, removed, error, answers)


def _response(server: str, reading: ParsedResponse) -> XdsResponse:
    valid = tuple(item.parsed.name or "" for item in reading.items if not item.parsed.errors)
    invalid = tuple(item.parsed.name or "" for item in reading.items if item.parsed.errors)
    return XdsResponse(
        server, _name(reading.type.type_url), reading.version, reading.nonce, valid, invalid, reading.errors
    )


def resource_event(resource: Resource) -> XdsResource:
    """As it stands."""
    state = resource.state.value if resource.wanted else ""
    cached = resource.state in _MAY_BE_CACHED and resource.value is not None
    version = resource.accepted.version if resource.accepted is not None else ""
    authority = authority_of(resource.name)
    return XdsResource(_name(resource.type.type_url), resource.name, authority, state, cached, version)


def _name(type_url: str) -> str:
    return type_url.rpartition("/")[2]
