"""A client's connections have a maximum age, as a server's have in A9.

A proxy, or a name with many addresses, spreads connections and not calls: a connection that lives for days keeps its
calls where it once was opened.
"""

from __future__ import annotations

import math
from random import Random

import trio
from msgspec import Struct

from trxds.core.arguments import check_number
from trxds.core.status import unavailable

from .connection import Connection

_JITTER = 0.1  # A9: of the age, so that connections made together do not all end together


class ConnectionAge(Struct, frozen=True):
    """The age at which a connection is replaced, and the time that its calls have to end after that, in seconds."""

    seconds: float
    grace: float
    random: Random

    def draw(self) -> float:
        """Return the age for one connection."""
        return self.seconds * self.random.uniform(1 - _JITTER, 1 + _JITTER)


async def close_after_grace(age: ConnectionAge, connection: Connection) -> None:
    """Close a connection that was replaced, unless its calls end before."""
    await trio.sleep(age.grace)
    text = f"{connection.peer}: the connection is older than max_connection_age, and the grace is over"
    connection.close(unavailable(text))


def make_connection_age(seconds: float | None, grace: float | None, random: Random) -> ConnectionAge | None:
    """Return the age for a channel's options; None without one. `ValueError` unless each is above 0."""
    if seconds is not None:
        finite = "a finite number of seconds above 0, or None"
        check_number("max_connection_age", seconds, lambda age: 0 < age < math.inf, finite)
    if grace is not None:
        form = "a number of seconds above 0, or None for no limit"
        check_number("max_connection_age_grace", grace, lambda grace: grace > 0, form)
    if seconds is None:
        if grace is not None:
            raise ValueError("max_connection_age_grace has no meaning without max_connection_age; set both")
        return None
    return ConnectionAge(seconds, math.inf if grace is None else grace, random)
