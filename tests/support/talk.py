"""A conversation with an xDS server in the vocabulary of tests: requests and states as short texts."""

from __future__ import annotations

from typing import TypeAlias

from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import StatusCode
from trxds.resources.protos import DiscoveryRequest
from trxds.resources.types import RESOURCE_TYPES, Parsed
from trxds.xds.ads_stream_state import AdsStreamState
from trxds.xds.authority import Authority
from trxds.xds.bootstrap import Node, ServerConfig
from trxds.xds.delta import DeltaProtocol
from trxds.xds.discovery_request import ProtocolVariant
from trxds.xds.discovery_response import ParsedResource, ParsedResponse, ResourceError
from trxds.xds.resource import Changes, Resource
from trxds.xds.resource_error_policy import resource_error_policy

TYPES = {type.kind: type for type in RESOURCE_TYPES.values()}
SERVER = ServerConfig("plane:18000")
WHERE = '(server plane:18000, node "web-1")'


def since(state: str, at: int = 0) -> str:
    """As messages have it, of a client whose clock began with 1970."""
    return f"{state} since 1970-01-01T00:00:{at:02}Z"


Told: TypeAlias = dict[str, str]


class Bad(str):
    """A resource whose error is this text."""


class Talk:
    """A conversation in the vocabulary of these tests: requests and states as short texts."""

    def __init__(
        self, server: ServerConfig = SERVER, *, a88: bool = False, dialect: ProtocolVariant | None = None
    ) -> None:
        rules = resource_error_policy(server.features, a88=a88)
        self.conversation = AdsStreamState(server, Node("web-1"), dialect, rules)
        self.authority = Authority([server], self, "web-1")
        self.now = 0.0
        self.nonce = 0

    def wants(self, kind: str, *names: str) -> Told:
        return {
            name: text
            for each in names
            for name, text in told(self.authority.watch(TYPES[kind], each, self.now)).items()
        }

    def drops(self, kind: str, *names: str) -> None:
        for name in names:
            self.authority.unwatch(TYPES[kind], name)

    def opens(self) -> list[str]:
        self.conversation.stream_opened()
        return self.says()

    def opens_silently(self) -> None:
        self.conversation.stream_opened()
        self.requests()

    def says(self) -> list[str]:
        return [in_words(request) for request in self.requests()]

    def requests(self) -> list[DiscoveryRequest]:
        requests = []
        while (request := self.conversation.next_request(self.now)) is not None:
            self.conversation.sent(request, self.now)
            requests.append(request)
        return requests

    def hears(self, kind: str, version: str, *unnamed: Bad, removed: tuple[str, ...] = (), **resources: str) -> Told:
        """A response; its nonce is n1, n2, ... Nothing is said yet."""
        reading = self.reading(kind, version, *unnamed, removed=removed, **resources)
        return told(self.authority.review(self.conversation.received(reading, self.now)))

    def reading(
        self, kind: str, version: str, *unnamed: Bad, removed: tuple[str, ...] = (), **resources: str
    ) -> ParsedResponse:
        self.nonce += 1
        items = [ParsedResource(("", b"?"), Parsed(None, None, (str(bad),))) for bad in unnamed]
        items += [self.item(kind, name, text) for name, text in resources.items()]
        all_items, is_delta = tuple(items), self._is_delta
        return ParsedResponse(TYPES[kind], version, f"n{self.nonce}", all_items, removed=removed, partial=is_delta)

    @property
    def _is_delta(self) -> bool:
        return isinstance(self.conversation.protocol, DeltaProtocol)

    def hears_of_failure(self, kind: str, version: str, name: str, code: int, message: str) -> Told:
        """A response that has only the error of one resource (xRFC TP3)."""
        self.nonce += 1
        failed = (ResourceError(name, code, message),)
        reading = ParsedResponse(TYPES[kind], version, f"n{self.nonce}", (), failed, partial=self._is_delta)
        return told(self.authority.review(self.conversation.received(reading, self.now)))

    def resource(self, name: str) -> Resource:
        [resource] = [each for each in self.authority.resources if each.name == name]
        return resource

    def item(self, kind: str, name: str, text: str) -> ParsedResource:
        raw = "", f"{name}={text}".encode()
        return ParsedResource(raw, self.conversation.parsed_resources(TYPES[kind]).get(raw) or parsed(name, text))

    def waits(self, seconds: float) -> Told:
        self.now += seconds
        return told(self.authority.review(self.conversation.expire_timers(self.now)))

    def breaks(self, reason: str = "Connection refused") -> Told:
        self.conversation.stream_ended(reason, self.now)
        return told(self.authority.review([]))

    # As the authority's supply of servers: there is but one.

    def get_or_create_stream(self, server: ServerConfig) -> AdsStreamState:
        return self.conversation

    def release_stream(self, conversation: AdsStreamState) -> None:
        raise AssertionError("the only server is never released")


def parsed(name: str, text: str) -> Parsed:
    return Parsed(name, None, (str(text),)) if isinstance(text, Bad) else Parsed(name, text, ())


def told(changes: Changes) -> Told:
    return {name: shown(state) for (_, name), state in changes.items()}


def shown(state: ResourceUpdate) -> str:
    for status in (state.error, state.ambient):
        assert status is None or status.code is StatusCode.UNAVAILABLE
    if state.error is not None:
        return f"{'absent' if state.absent else 'error'}: {state.error.message}"
    return f"{state.value} but {state.ambient.message}" if state.ambient else str(state.value)


def in_words(request: DiscoveryRequest) -> str:
    kind = RESOURCE_TYPES[request.type_url].kind
    verb = "NACK" if request.HasField("error_detail") else "ACK" if request.response_nonce else "SUBSCRIBE"
    version = [f"v={request.version_info}"] if request.version_info else []
    nonce = [request.response_nonce] if request.response_nonce else []
    return " ".join([verb, kind, *version, *nonce, ",".join(request.resource_names)]).strip()
