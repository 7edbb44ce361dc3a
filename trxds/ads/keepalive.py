"""Signs of life on a connection that is quiet for long: a control plane's usual state.

A peer that vanished without a word (a host that lost power, a NAT that forgot) cannot be told from
one that has nothing to say, unless it is asked. The times are those of gRPC's other xDS clients;
servers take more frequent PINGs for abuse.
"""

from __future__ import annotations

import trio

from trxds.ground.status import unavailable
from trxds.wire.connection import Connection

QUIET = 300.0  # seconds without a byte before we ask
ANSWER_WITHIN = 20.0  # seconds


async def keep_alive(connection: Connection) -> None:
    """Ask by PING whenever it is quiet, and close it if nothing at all comes back."""
    heard = trio.current_time()
    while True:
        await trio.sleep_until(heard + QUIET)
        if connection.last_read <= heard:
            connection.ping()
            await trio.sleep(ANSWER_WITHIN)
        if connection.last_read <= heard:
            connection.close(unavailable(f"{connection.peer}: no answer to a PING within {ANSWER_WITHIN:g} s"))
            return
        heard = connection.last_read
