"""The events of the xDS client for observers (A78, `core/observe.py`): requests, responses and resources."""

from __future__ import annotations

from typing import Any

from trxds.core.observe import XdsRequest, XdsResource, XdsResponse
from trxds.core.observers import Observers

from .discovery_response import ParsedResponse
from .resource import CacheState, Resource
from .resource_names import authority_of

# States that have a label of their own while an older version is in use (A78, A88).
_MAY_BE_CACHED = frozenset({CacheState.NACKED, CacheState.DOES_NOT_EXIST, CacheState.RECEIVED_ERROR})


class XdsTelemetry:
    """The events of one server."""

    def __init__(self, server: str, observers: Observers) -> None:
        self._server = server
        self._observers = observers
        self._last_nonces: dict[str, str] = {}  # the last nonce that was answered on this stream, by type

    def stream_connected(self) -> None:
        self._last_nonces.clear()
        self._observers.xds_connected(self._server)

    def stream_failed(self, reason: str) -> None:
        self._observers.xds_failed(self._server, reason)

    def server_dropped(self) -> None:
        self._observers.xds_disconnected(self._server)

    def request_sent(self, request: Any) -> None:
        """Report a request of either protocol variant that was sent."""
        type, nonce = request.type_url, request.response_nonce
        # A request that only changes the subscription repeats the last nonce, except in delta. The nonces are noted for
        # observers that come later, too.
        answers = bool(nonce) and self._last_nonces.get(type) != nonce
        self._last_nonces[type] = nonce
        if self._observers.active:
            self._observers.xds_request_sent(_request_event(self._server, request, answers))

    def response_received(self, response: ParsedResponse) -> None:
        """Report a response that was parsed."""
        if self._observers.active:
            self._observers.xds_response_received(_response_event(self._server, response))


def _request_event(server: str, request: Any, answers: bool) -> XdsRequest:
    type, nonce = _type_name(request.type_url), request.response_nonce
    error = request.error_detail.message if request.HasField("error_detail") else ""
    if hasattr(request, "resource_names"):
        names, removed, version = tuple(request.resource_names), (), request.version_info
    else:
        names, removed = tuple(request.resource_names_subscribe), tuple(request.resource_names_unsubscribe)
        version = ""
    return XdsRequest(server, type, version, nonce, names, removed, error, answers)


def _response_event(server: str, response: ParsedResponse) -> XdsResponse:
    valid = tuple(item.parsed.name or "" for item in response.items if not item.parsed.errors)
    invalid = tuple(item.parsed.name or "" for item in response.items if item.parsed.errors)
    return XdsResponse(
        server, _type_name(response.type.type_url), response.version, response.nonce, valid, invalid, response.errors
    )


def resource_event(resource: Resource) -> XdsResource:
    """Return the present state of a resource as an event."""
    state = resource.shown_state if resource.wanted else ""
    cached = resource.state in _MAY_BE_CACHED and resource.value is not None
    version = resource.accepted.version if resource.accepted is not None else ""
    authority = authority_of(resource.name)
    return XdsResource(_type_name(resource.type.type_url), resource.name, authority, state, cached, version)


def _type_name(type_url: str) -> str:
    return type_url.rpartition("/")[2]
