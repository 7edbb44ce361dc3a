"""The servers of one authority, and what a client asks them, as values (A71)."""

from __future__ import annotations

from trxds.resources.types import CDS, Parsed, ResourceType
from trxds.xds.ads_stream_state import AdsStreamState
from trxds.xds.authority import Authority
from trxds.xds.bootstrap import Node, ServerConfig
from trxds.xds.discovery_response import ParsedResource, ParsedResponse
from trxds.xds.resource import Changes

SERVERS = [ServerConfig(f"{name}:1") for name in "abc"]


class Mesh:
    """An authority of three servers, a, b and c. States are short texts; `told` has the last of each resource."""

    def __init__(self) -> None:
        self.asked: dict[str, AdsStreamState] = {}
        self.authority = Authority(SERVERS, self, "n")
        self.told: dict[str, str] = {}
        self.count = 0

    def get_or_create_stream(self, server: ServerConfig) -> AdsStreamState:
        return self.asked.setdefault(server.uri[0], AdsStreamState(server, Node("n")))

    def release_stream(self, conversation: AdsStreamState) -> None:
        conversation.close()
        del self.asked[conversation.server.uri[0]]

    @property
    def servers(self) -> str:
        return "".join(self.asked)

    def watches(self, *names: str, type: ResourceType = CDS) -> None:
        for name in names:
            self.hear(self.authority.watch(type, name, 0.0))

    def leaves(self, name: str) -> None:
        self.authority.unwatch(CDS, name)

    def fails(self, server: str) -> None:
        self.asked[server].stream_ended("refused", 0.0)
        self.hear(self.authority.review([]))

    def opens(self, server: str) -> set[str]:
        """A new stream; the names it asks for."""
        conversation = self.asked[server]
        conversation.stream_opened()
        return self.says(server)

    def says(self, server: str) -> set[str]:
        names: set[str] = set()
        while (request := self.asked[server].next_request(0.0)) is not None:
            self.asked[server].sent(request, 0.0)
            names.update(request.resource_names)
        return names

    def answers(self, server: str, type: ResourceType = CDS, **resources: str) -> None:
        self.count += 1
        items = tuple(ParsedResource((name, text.encode()), Parsed(name, text)) for name, text in resources.items())
        reading = ParsedResponse(type, f"v{self.count}", f"n{self.count}", items)
        self.hear(self.authority.review(self.asked[server].received(reading, 0.0)))

    def hear(self, changes: Changes) -> None:
        for (_, name), state in changes.items():
            status = state.error or state.ambient
            words = [] if state.value is None else [str(state.value)]
            words += [] if status is None else ["failed" if "cannot reach" in status.message else "absent"]
            self.told[name] = " ".join(words)
