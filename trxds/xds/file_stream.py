"""A `file:` server: resources come from watched files, by the rules of ADS, and there is no control plane.

Each version of the files is like one stream to a server: it answers every request with what the files have, and says
of the rest that it does not exist. A version with an error is like a server that cannot be reached. So what is accepted
stays in use, a better or worse server of the bootstrap takes its turn (A71), and operators see what they always see.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable

import trio
from msgspec import structs

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.observers import Observers
from trxds.resources.cooperative_parse import Slices
from trxds.resources.types import RESOURCE_TYPES, ParseContext, ResourceType
from trxds.transport.run_in_thread import run_in_thread

from .ads_stream import ReviewServers, notify_watchers, run_in_slices
from .ads_stream_state import AdsStreamState
from .discovery_response import ParsedResource, ParsedResponse, read_resource
from .resource import Resource
from .resource_files import FileResource, FilesContent, ResourceFiles
from .watch_registry import WatchRegistry
from .xds_channel import XdsChannel
from .xds_telemetry import XdsTelemetry

log = logging.getLogger("trxds.xds")

POLL_INTERVAL = 1.0  # seconds between two looks at the files


class FileStream:
    """Keep the resources of a `file:` server up to date for as long as `run` runs."""

    kind = "files"

    def __init__(
        self,
        state: AdsStreamState,
        watches: WatchRegistry,
        review: ReviewServers,
        xds_channel: XdsChannel,
        context: ParseContext,
        observers: Observers,
    ) -> None:
        self.server = state.server
        self.xds_channel = xds_channel
        self._state = state
        self._watches = watches
        self._review = review
        self._context = context
        self._telemetry = XdsTelemetry(self.server.uri, observers)
        self._files = ResourceFiles(self.server.files)
        self._content = FilesContent()
        self._requested: dict[ResourceType, frozenset[str]] = {}  # the names of the last requests
        # Those of them that this version has answered.
        self._answered: defaultdict[ResourceType, frozenset[str]] = defaultdict(frozenset)
        self._responses = 0
        self._wakeup: ConflatingQueue[None] = ConflatingQueue()
        self._scope = trio.CancelScope()

    def subscription_changed(self) -> None:
        self._wakeup.put("subscription", None)

    def close(self) -> None:
        """End it for good: another server has replaced this one."""
        self._state.close()
        self._telemetry.server_dropped()
        self._scope.cancel(reason="another xDS server has taken over")

    async def run(self) -> None:
        with self._scope:
            while True:
                # In a thread, because a file may be on a network.
                content = await run_in_thread(self._files.read_if_changed)
                if content is not None:
                    self._begin(content)
                await self._answer()
                await self._wakeup.next(trio.current_time() + POLL_INTERVAL)

    def _begin(self, content: FilesContent) -> None:
        """Begin a new version of the files."""
        now = trio.current_time()
        if content.problems:
            # All of them, each with its place: whoever edits the files corrects them in one go.
            for problem in content.problems:
                log.warning("xDS server %s: %s", self.server.uri, problem)
            if self._state.is_connected:
                self._state.stream_ended("the files have changed", now)
            # Without a stream this is a failure: the new version answers nothing.
            self._state.stream_ended(content.error, now)
            self.xds_channel.note_files(content.error)
            self._telemetry.stream_failed(content.error)
            self._watches.publish(self._review(self._state, ()))
            return
        log.info("xDS server %s: version %s of the files", self.server.uri, content.version)
        if not self._state.is_connected:
            self._state.stream_opened()
            self._requested = {}
            self.xds_channel.note_files("")
            self._telemetry.stream_connected()
        # Nothing is answered yet in this version, so each name gets an answer, as after a reconnect.
        self._content = content
        self._answered.clear()

    async def _answer(self) -> None:
        """Answer the requests for names that this version has not answered, all of them as one update."""
        touched: dict[Resource, None] = {}
        try:
            # An answer may lead to further requests, as a cluster does to its endpoints.
            while unanswered := self._take_requests():
                for type, names in unanswered.items():
                    self._answered[type] |= names
                    touched.update(dict.fromkeys(await self._answer_type(type, names)))
        finally:
            # Also if another server takes over meanwhile, which ends this task: what came before that was applied.
            changes = self._review(self._state, touched) if touched else {}
        notify_watchers(self._watches, changes)

    def _take_requests(self) -> dict[ResourceType, frozenset[str]]:
        """Take the requests that are there, and return the names that are unanswered, by type."""
        now = trio.current_time()
        while (request := self._state.next_request(now)) is not None:
            self._telemetry.request_sent(request)
            self._state.sent(request, now)
            type, names = RESOURCE_TYPES[request.type_url], frozenset(request.resource_names)
            self._requested[type] = names
            # What is requested no longer is forgotten, so it has to be answered again when somebody comes back.
            self._answered[type] &= names
        if not self._state.is_connected:
            return {}
        unanswered = {type: names - self._answered[type] for type, names in self._requested.items()}
        return {type: names for type, names in unanswered.items() if names}

    async def _answer_type(self, type: ResourceType, names: Iterable[str]) -> Iterable[Resource]:
        self._responses += 1
        found = {name: self._content.resources.get((type.type_url, name)) for name in sorted(names)}
        items = await run_in_slices(self._read(type, [each for each in found.values() if each is not None]))
        absent = tuple(name for name, each in found.items() if each is None)
        version, nonce = self._content.version, str(self._responses)
        response = ParsedResponse(type, version, nonce, items, removed=absent, partial=True)
        self._telemetry.response_received(response)
        return self._state.received(response, trio.current_time())

    def _read(self, type: ResourceType, found: Iterable[FileResource]) -> Slices[tuple[ParsedResource, ...]]:
        items = []
        for each in found:
            items.append((yield from self._read_one(type, each)))
            yield
        return tuple(items)

    def _read_one(self, type: ResourceType, found: FileResource) -> Slices[ParsedResource]:
        """Return the resource as ADS would; an error has its place in the files too."""
        before = self._state.parsed_resources(type)
        known = before.get((found.value.type_url, found.value.value))
        # The lines of a refused resource may have changed, though its bytes have not.
        reused = before if known is not None and not known.errors else {}
        item = yield from read_resource(found.value, type, reused, self._context, set())
        if not item.parsed.errors:
            return item
        errors = tuple(f"{found.place}: {error}" for error in item.parsed.errors)
        return structs.replace(item, parsed=structs.replace(item.parsed, errors=errors))
