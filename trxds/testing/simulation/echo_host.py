"""An `EchoHost` answers every call with its request, as slowly and as badly as its `Behaviour` says."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from trxds.core.status import OK, Status, StatusCode
from trxds.transport.events import ErrorCode

from .echo_connection import EchoConnection, Stream
from .network import Connection, SimulatedNetwork
from .timeline import Timeline

SIMULATED_ERROR = Status(StatusCode.UNAVAILABLE, "simulated error of the host")

_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"  # messages of HealthCheckResponse

_Z99 = 2.3263478740408408  # the standard normal distribution's 99th percentile


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a host answers.

    `latency` is the median of the time, in seconds, that it works on a call, and `p99` the 99th percentile: a
    log-normal distribution, or always `latency` if there is no `p99`. `error_rate`, 0 to 1, is the share of calls that
    end with `error`. It works on `capacity` calls at a time, and the others wait; None is no limit.

    Raises `ValueError` for numbers that make no sense.
    """

    latency: float = 0.0
    p99: float | None = None
    error_rate: float = 0.0
    error: Status = SIMULATED_ERROR
    capacity: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.latency < math.inf:
            raise ValueError(f"latency {self.latency} is no number of seconds from 0")
        if self.p99 is not None and not self.latency <= self.p99 < math.inf:
            raise ValueError(f"p99 {self.p99} is no number of seconds from the latency, {self.latency}")
        if self.p99 is not None and not self.latency:
            raise ValueError("a p99 needs a latency above 0, which is the median")
        if not 0 <= self.error_rate <= 1:
            raise ValueError(f"error_rate {self.error_rate} is not between 0 and 1")
        if self.capacity is not None and self.capacity < 1:
            raise ValueError(f"capacity {self.capacity} is below 1")

    def draw_latency(self, random: Random) -> float:
        """Return how long the host works on a call, in seconds."""
        if self.p99 is None or self.p99 == self.latency:
            return self.latency
        sigma = (math.log(self.p99) - math.log(self.latency)) / _Z99
        return random.lognormvariate(math.log(self.latency), sigma)


class EchoHost:
    """A host of a simulation; `calls` counts the requests that came to their end. Made by `Simulation.add_host`."""

    def __init__(
        self, address: str, network: SimulatedNetwork, timeline: Timeline, now: Callable[[], float], random: Random
    ) -> None:
        self.address = address
        self.behaviour = Behaviour()
        self.calls = 0
        self._network = network
        self._timeline = timeline
        self._now = now
        self._random = random
        self._connections: dict[EchoConnection, None] = {}
        self._working: dict[Stream, None] = {}
        self._waiting: deque[tuple[EchoConnection, Stream]] = deque()
        self._is_serving = True
        self._watches: dict[Stream, EchoConnection] = {}

    def __repr__(self) -> str:
        return f"<EchoHost {self.address} {len(self._connections)} connections, {self.calls} calls>"

    # -- its faults

    def start(self) -> None:
        """Listen: at the beginning, or again after `kill` or `vanish`; connections from before are reset."""
        self.kill()
        self.listen()

    def listen(self) -> None:
        """Listen for the first time. `OSError` if another host or server is at the address."""
        self._network.accept(self.address, self._accept)

    def kill(self) -> None:
        """End as a process does that is killed: connections are reset and new ones refused."""
        self._network.release(self.address)
        self._network.reset(self.address)
        # Of half-open connections it was not told, and a new process knows nothing of them.
        self._connections.clear()
        self._working.clear()
        self._waiting.clear()
        self._watches.clear()

    def vanish(self) -> None:
        """End as a machine does that loses its power: nobody is told, and connections are neither made nor refused."""
        self._network.unplug(self.address)

    def goaway(self, code: ErrorCode = ErrorCode.NO_ERROR) -> None:
        """Send GOAWAY on every connection; the calls under way are answered, and new connections are accepted."""
        for each in tuple(self._connections):
            each.goaway(code)

    def reset_streams(self, code: ErrorCode = ErrorCode.INTERNAL_ERROR) -> None:
        """Reset every call under way."""
        for each in tuple(self._connections):
            each.reset_streams(code)

    @property
    def is_serving(self) -> bool:
        """Whether it says SERVING to health checks (A17), which it answers for any service; calls it answers anyway."""
        return self._is_serving

    @is_serving.setter
    def is_serving(self, value: bool) -> None:
        self._is_serving = value
        for stream, connection in tuple(self._watches.items()):
            self._tell_health(connection, stream)

    # -- its connections

    def _accept(self, connection: Connection) -> EchoConnection:
        made = EchoConnection(self, connection)
        self._connections[made] = None
        made.flush()
        return made

    def closed(self, connection: EchoConnection) -> None:
        """Forget a connection that has ended."""
        self._connections.pop(connection, None)

    # -- its calls

    def begin(self, connection: EchoConnection, stream: Stream) -> None:
        """Work on a call, or let it wait."""
        self.calls += 1
        capacity = self.behaviour.capacity
        if capacity is not None and len(self._working) >= capacity:
            self._waiting.append((connection, stream))
        else:
            self._work(connection, stream)

    def watch(self, connection: EchoConnection, stream: Stream) -> None:
        """Say the health now, and whenever it changes."""
        self._watches[stream] = connection
        self._tell_health(connection, stream)

    def _tell_health(self, connection: EchoConnection, stream: Stream) -> None:
        connection.send(stream, _SERVING if self._is_serving else _NOT_SERVING)
        connection.flush()

    def _work(self, connection: EchoConnection, stream: Stream) -> None:
        latency = self.behaviour.draw_latency(self._random)
        if latency > 0:
            self._working[stream] = None
            self._timeline.call_at(self._now() + latency, partial(self._finish, connection, stream))
        else:
            connection.respond(stream, self._status())

    def _finish(self, connection: EchoConnection, stream: Stream) -> None:
        if stream in self._working:
            connection.respond(stream, self._status())
            connection.flush()
            self.forget(stream)

    def forget(self, stream: Stream) -> None:
        """End the work on a call."""
        self._watches.pop(stream, None)
        if stream in self._working:
            del self._working[stream]
            self._work_on_waiting()
        else:
            self._waiting = deque(each for each in self._waiting if each[1] is not stream)

    def _work_on_waiting(self) -> None:
        capacity = self.behaviour.capacity
        while self._waiting and (capacity is None or len(self._working) < capacity):
            connection, stream = self._waiting.popleft()
            self._work(connection, stream)
            connection.flush()

    def _status(self) -> Status:
        rate = self.behaviour.error_rate
        return self.behaviour.error if rate and self._random.random() < rate else OK
