"""The last accepted resources, kept on disk for a start at which no xDS server answers.

Two tasks in the xDS client's nursery: one writes what was accepted, soon and in a thread, so that no update waits for a
disk; the other gives an authority what was read at the start, if none of its servers answers. What is read is parsed
and validated as if the server had sent it now. A server is never told of it: it gets no versions, so it sends all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import trio
from msgspec import Struct, structs

from trxds.core.clock import Clock
from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.plural import plural
from trxds.resources.protos import AnyProto
from trxds.resources.types import RESOURCE_TYPES, ParseContext
from trxds.transport.run_in_thread import run_in_thread

from .ads_stream import run_in_slices
from .ads_stream_state import AdsStreamState
from .authority import Authority, RestoredResource
from .bootstrap import is_file
from .cache_directory import CacheDirectory
from .cache_file import CachedResource, DamagedCacheError, decode_cache, encode_cache
from .discovery_response import NO_BYTES, describe_errors, read_resource
from .resource import Changes, Key, Resource, UpdateMetadata
from .resource_names import authority_of

log = logging.getLogger("trxds.xds")

START_TIMEOUT = 15.0  # seconds without any answer after which a start goes on with the cache; as A57's resource timer
WRITE_DELAY = 1.0  # seconds in which changes gather before they are written
REFRESH_INTERVAL = 3600.0  # seconds after which an unchanged cache is written again, to show that it is still current


class CacheLocation(Struct, frozen=True):
    """The file of a client's cache. Resources that were current longer ago than `max_age` seconds are not used."""

    directory: CacheDirectory
    key: str
    max_age: float

    def __str__(self) -> str:
        return str(self.directory.file(self.key))

    def read(self) -> list[CachedResource]:
        """Return the resources of the file; none if there is no file. It blocks, so it is for a thread."""
        data = self.directory.read(self.key)
        return decode_cache(data) if data is not None else []

    def write(self, resources: Iterable[CachedResource], now: float) -> None:
        """Replace the file, and remove those that nobody needs any more. It blocks, so it is for a thread."""
        self.directory.replace(self.key, encode_cache(resources))
        self.directory.remove_old(now, self.max_age)


class ResourceCache:
    """The cache of one xDS client.

    `contexts` has the parsers' settings by server; `servers` returns the present servers. Watchers get what changes by
    `publish`, and observers the resources by `report`.
    """

    def __init__(
        self,
        location: CacheLocation,
        authorities: Mapping[str | None, Authority],
        contexts: Mapping[str, ParseContext],
        servers: Callable[[], Iterable[AdsStreamState]],
        publish: Callable[[Changes], None],
        report: Callable[[Iterable[Resource]], None],
    ) -> None:
        self._location = location
        self._authorities = authorities
        self._contexts = contexts
        self._servers = servers
        self._publish = publish
        self._report = report
        self._entries: dict[Key, CachedResource] = {}
        self._live: set[Key] = set()  # those that are watched and came from a server
        self._answered_at: dict[str, float] = {}  # when each server was last known to answer, in seconds since 1970
        self._changes: ConflatingQueue[None] = ConflatingQueue()  # wakes the writer
        self._events: ConflatingQueue[None] = ConflatingQueue()  # wakes the task that waits for servers
        self._problem = ""  # the last failure to write, so that it is logged once
        for authority in authorities.values():
            authority.cache_pending = True

    def __repr__(self) -> str:
        return f"<ResourceCache {self._location}, {plural(len(self._entries), 'resource')}>"

    @property
    def stale(self) -> str:
        """Describe the resources in use that are from the cache; empty if there are none."""
        stale = [each for authority in self._authorities.values() for each in authority.stale]
        if not stale:
            return ""
        since = min(each.accepted.stale_since for each in stale if each.accepted is not None)
        first = f'{stale[0].type.kind} resource "{stale[0].name}"'
        more = f" and {plural(len(stale) - 1, 'more resource')}" if stale[1:] else ""
        verb = "are" if stale[1:] else "is"
        return f"{first}{more} {verb} stale: from the cache on disk ({self._location}), current until {since}"

    def note(self, resources: Iterable[Resource]) -> None:
        """Note that the state of these resources or of a server has changed. Synchronous, and without I/O."""
        for resource in resources:
            if self._note(resource):
                self._changes.put("resources", None)
        self._events.put("change", None)

    def _note(self, resource: Resource) -> bool:
        """Take over the state of a resource; return whether the cache has changed."""
        key, update = resource.key, resource.accepted
        if not resource.wanted:
            self._note_unwatched(key)
            return False
        if resource.is_stale or (resource.value is None and not resource.absent):
            return False  # there is nothing new: no server has sent a version that was accepted
        if resource.value is None or resource.ignored_deletion:
            # A server that never answered has deleted nothing: its silence is the reason to have a cache.
            is_answer = self._authorities[authority_of(resource.name)].has_answered
            self._live.discard(key)
            return is_answer and self._entries.pop(key, None) is not None
        if update is None or update.raw == NO_BYTES or is_file(update.server):
            return False
        self._live.add(key)
        before = self._entries.get(key)
        # By identity: bytes that came again are the same object, and to compare megabytes takes long.
        if before is not None and before.value is update.raw[1] and before.version == update.version:
            return False
        epoch = Clock.now().epoch
        self._answered_at[update.server] = epoch + trio.current_time()
        times = epoch + update.at, epoch + trio.current_time()
        self._entries[key] = CachedResource(resource.name, *update.raw, update.version, update.server, *times)
        return True

    def _note_unwatched(self, key: Key) -> None:
        # A program closes its channels before it ends. What they used stays, until it is too old.
        if key in self._live:
            self._live.discard(key)
            entry = self._entries[key]
            self._entries[key] = structs.replace(entry, current_at=self._answered_at[entry.server])

    async def run(self) -> None:
        """Read the cache once, and keep it until cancelled."""
        found = await self._read()
        for key, each in found.items():
            self._entries.setdefault(key, each)
        async with trio.open_nursery() as nursery:
            # Only now: before it is read, a write would replace the file by the little that is known so far.
            nursery.start_soon(self._write_changes, name="xds cache/write")
            await self._supply(found)

    # -- reading

    async def _read(self) -> dict[Key, CachedResource]:
        try:
            # Until it is read, watchers get no error in place of its values, so a disk that hangs must not take longer.
            with trio.fail_after(START_TIMEOUT):
                found = await run_in_thread(self._location.read)
        except trio.TooSlowError:
            log.warning("the resource cache %s is ignored: it is not read within %g s", self._location, START_TIMEOUT)
            return {}
        except DamagedCacheError as error:
            text = "the resource cache %s is ignored: %s; delete it, or leave it to be replaced"
            log.warning(text, self._location, error)
            return {}
        except OSError as error:
            log.warning("the resource cache %s is ignored: %s", self._location, error)
            return {}
        now, max_age = Clock.now().epoch + trio.current_time(), self._location.max_age
        # A time in the future is one of a clock that was wrong, so nothing is known of the age.
        fresh = [each for each in found if abs(now - each.current_at) <= max_age and each.type_url in RESOURCE_TYPES]
        if found and not fresh:
            log.warning("the resource cache %s is ignored: all of it is older than %g s", self._location, max_age)
        return {(RESOURCE_TYPES[each.type_url], each.name): each for each in fresh}

    async def _supply(self, found: Mapping[Key, CachedResource]) -> None:
        """Give each authority its part of the cache, unless one of its servers answers."""
        waiting = dict(self._authorities)
        while waiting:
            now = trio.current_time()
            for name, authority in tuple(waiting.items()):
                if authority.has_answered:
                    del waiting[name]
                elif authority.outage or authority.watched_since + START_TIMEOUT <= now:
                    del waiting[name]
                    own = {key: each for key, each in found.items() if authority_of(each.name) == name}
                    await self._use(authority, own)
            deadlines = (authority.watched_since + START_TIMEOUT for authority in waiting.values())
            await self._events.next(min(deadlines, default=now))
        await trio.sleep_forever()

    async def _use(self, authority: Authority, found: Mapping[Key, CachedResource]) -> None:
        cached = {}
        for key, each in found.items():
            if (restored := await self._parse(each)) is not None:
                cached[key] = restored
        # Only now: a server may have answered meanwhile, and then nothing of this is used.
        changes = authority.use_cached(cached)
        self._publish(changes)
        self._report(authority.stale)
        if authority.has_answered:
            return
        reason = authority.outage or f"no answer within {START_TIMEOUT:g} s"
        if cached:
            text = "no xDS server has answered (%s): until one does, the cache %s is used, and may be out of date: %s"
            log.warning(text, reason, self._location, plural(len(cached), "resource"))
        else:
            log.warning("no xDS server has answered (%s), and the cache %s has nothing", reason, self._location)

    async def _parse(self, cached: CachedResource) -> RestoredResource | None:
        """Return the resource as if its server had sent it; None, with a warning, if it would be refused."""
        type, context = RESOURCE_TYPES[cached.type_url], self._contexts.get(cached.server)
        # The bootstrap has another server by now, whose features may read the bytes in another way.
        if context is None:
            return None
        message = AnyProto(type_url=cached.type_url, value=cached.value)
        # A wrapper's name (A47) is not in the bytes.
        item = await run_in_slices(read_resource(message, type, {}, context, set(), cached.name))
        if item.parsed.errors:
            text = '%s resource "%s" of the cache %s is refused: %s; delete the file, or leave it to be replaced'
            log.warning(text, type.kind, cached.name, self._location, describe_errors(item.parsed.errors, type))
            return None
        clock = Clock.now()
        at, current = cached.accepted_at - clock.epoch, cached.current_at - clock.epoch
        update = UpdateMetadata(cached.version, cached.raw, at, cached.server, clock.text(at), clock.text(current))
        return update, item.parsed

    # -- writing

    async def _write_changes(self) -> None:
        # Well before the end of `max_age`, or a quiet mesh would find its cache too old.
        refresh = min(REFRESH_INTERVAL, self._location.max_age / 4)
        while True:
            has_changed = bool(await self._changes.next(trio.current_time() + refresh))
            if has_changed or self._live:
                await trio.sleep(WRITE_DELAY)  # a start brings many changes, one after the other
                await self._write()

    async def _write(self) -> None:
        now = Clock.now().epoch + trio.current_time()
        self._answered_at |= {each.server.uri: now for each in self._servers() if each.is_answering}
        # What is in use is never old, however long ago its server sent it.
        max_age = self._location.max_age
        self._entries = {
            key: each
            for key, each in self._entries.items()
            if key in self._live or abs(now - each.current_at) <= max_age
        }
        # Of copies, because the thread makes the resources while it writes them.
        entries, live, answered_at = dict(self._entries), frozenset(self._live), dict(self._answered_at)
        current = (
            structs.replace(each, current_at=answered_at[each.server]) if key in live else each
            for key, each in entries.items()
        )
        try:
            await run_in_thread(partial(self._location.write, current, now))
        except OSError as error:
            # Once: a full disk would be one line a second.
            if str(error) != self._problem:
                text = "the resource cache %s cannot be written: %s; the next start needs an xDS server"
                log.warning(text, self._location, error)
            self._problem = str(error)
        else:
            if self._problem:
                log.info("the resource cache %s is written again", self._location)
            self._problem = ""
