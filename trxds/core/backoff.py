"""`Backoff` is gRPC's exponential backoff (doc/connection-backoff.md); its random generator is an argument.

`RestartBackoff` is for streams that a host should keep open.
"""

from __future__ import annotations

from random import Random

_JITTER = 0.2  # of the delay itself, up or down: of connections, and of retries (A6)


class Backoff:
    """A `Backoff` yields delays in seconds: `base`, then times `multiplier` up to `maximum`, each with a jitter.

    The jitter is applied last, so a delay at the maximum still varies and clients do not retry in step.
    """

    __slots__ = ("_base", "_maximum", "_multiplier", "_next", "_random")

    def __init__(self, random: Random, base: float = 1.0, multiplier: float = 1.6, maximum: float = 120.0) -> None:
        self._random = random
        self._base = base
        self._multiplier = multiplier
        self._maximum = maximum
        self._next = base

    def next(self) -> float:
        """Return the delay to wait now; the one after it is longer."""
        # connection-backoff.md: the delay grows before the jitter, so the jitter does not add up.
        delay = self._next
        self._next = min(delay * self._multiplier, self._maximum)
        return delay * self._random.uniform(1 - _JITTER, 1 + _JITTER)

    def reset(self) -> None:
        """Begin again with the first delay, after a success."""
        self._next = self._base


class RestartBackoff:
    """A `RestartBackoff` says how long to wait before a stream that has ended is begun again (A17, A51).

    A stream that had a message is begun again at once. If that one ends too, with a message or without, the next one
    waits: otherwise a host that ends each stream would be asked without a pause.
    """

    __slots__ = ("_backoff", "_was_at_once", "was_answered")

    def __init__(self, random: Random) -> None:
        self._backoff = Backoff(random)
        self._was_at_once = False
        self.was_answered = False
        """Whether the present stream has had a message; its reader sets it."""

    def next(self) -> float:
        """Return the delay in seconds after the present stream."""
        self._was_at_once, self.was_answered = self.was_answered and not self._was_at_once, False
        if self._was_at_once:
            self._backoff.reset()
            return 0.0
        return self._backoff.next()
