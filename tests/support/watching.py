"""An observer that notes all it is told, in words short enough to compare."""

from __future__ import annotations

from trxds.core.observe import AttemptObserver, CallObserver, Observer


class Watcher(Observer):
    """`notes` has everything in order; `of(...)` what begins with one of these words."""

    def __init__(self):
        self.notes = []
        self.outliers = []
        self.backends = []

    def of(self, *words):
        return [note for note in self.notes if note.split()[0] in words]

    def call(self, call):
        self.notes.append(f"call {call.path}")
        return WatchedCall(self)

    def closed(self):
        self.notes.append("closed")

    def session_opened(self, number):
        self.notes.append(f"session {number} opened")

    def session_closed(self, number):
        self.notes.append(f"session {number} closed")

    def xds_connected(self, server):
        self.notes.append(f"xds {server} connected")

    def xds_failed(self, server, reason):
        self.notes.append(f"xds {server} failed: {reason}")

    def xds_disconnected(self, server):
        self.notes.append(f"xds {server} left")

    def xds_request_sent(self, request):
        kind = "asks" if not request.answers else "NACK" if request.error else "ACK"
        self.notes.append(f"request {_short(request.type)} {kind} {','.join(request.names)}")

    def xds_response_received(self, response):
        bad = f" bad {','.join(response.invalid)}" if response.invalid else ""
        self.notes.append(f"response {_short(response.type)} {','.join(response.valid)}{bad}")

    def xds_resource(self, resource):
        self.notes.append(f"resource {_short(resource.type)} {resource.name} {resource.state or 'unwanted'}")

    def connection_failed(self, address, status):
        self.notes.append(f"connection {address} failed: {status.message}")

    def connection_opened(self, address, security):
        self.notes.append(f"connection {address} opened, {security}")

    def connection_closed(self, address, security, why):
        self.notes.append(f"connection {address} closed: {why}")

    def weights(self, weights):
        self.notes.append(f"weights {weights}")

    def outlier(self, outlier):
        self.outliers.append(outlier)


class WatchedCall(CallObserver):
    def __init__(self, watcher):
        self.watcher, self.notes = watcher, watcher.notes

    def resolution_delayed(self):
        self.notes.append("resolution delayed")

    def routed(self, cluster, hedged):
        self.notes.append(f"routed to {cluster}{' hedged' if hedged else ''}")

    def attempt(self, previous, transparent):
        self.notes.append(f"attempt {previous}{' transparent' if transparent else ''}")
        return WatchedAttempt(self.watcher)

    def backing_off(self, seconds):
        self.notes.append(f"backoff {seconds:.0f}")

    def settled(self, place):
        moved = f" from {place.before}: {place.reason}" if place.before else ""
        self.notes.append(f"settled on {place.address} of {place.cluster}{moved}")

    def ended(self, status):
        self.notes.append(f"over {status.code.name}")


class WatchedAttempt(AttemptObserver):
    def __init__(self, watcher):
        self.watcher, self.notes = watcher, watcher.notes

    def headers(self):
        return [("x-watched", str(self.notes.count("headers")))]

    def no_host(self, backend):
        self.notes.append(f"no-host in {backend}")

    def delayed(self, why):
        self.notes.append(f"delayed {why}")

    def picked(self, pick):
        self.watcher.backends.append(pick.backend)
        self.notes.append(f"picked {pick.address} of {pick.cluster}{' late' if pick.delayed else ''}")

    def session_picked(self, pick):
        self.notes.append(f"session-pick {pick.result} {pick.reason}".strip())

    def sent(self, size, wire_size):
        self.notes.append(f"sent {size} as {wire_size}")

    def received(self, size, wire_size):
        self.notes.append(f"received {size} as {wire_size}")

    def ended(self, status):
        self.notes.append(f"ended {status.code.name}")


def _short(type_url):
    return type_url.rpartition(".")[2]


class Watching:
    """As `open_channel(telemetry=...)` takes it: `watcher` sees the channel from its first step on."""

    def __init__(self):
        self.watcher = Watcher()

    def observe(self, target, locate):
        self.target, self.locate = target, locate
        return self.watcher
