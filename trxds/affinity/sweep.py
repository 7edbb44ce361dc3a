"""The idle sweep of `xds_override_host`: the one thing about sessions that time alone does (A75).

It is a task of its own as long as sessions lease a host at all: most clusters have none.
"""

from __future__ import annotations

import trio

from .hosts import HostTable


async def sweep_idle_hosts(table: HostTable) -> None:
    """Until cancelled. An update of the table cancels it and begins another."""
    wake_at = table.next_sweep(trio.current_time())
    while True:
        await trio.sleep_until(wake_at)
        wake_at = table.sweep(trio.current_time())
