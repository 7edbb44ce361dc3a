"""The check that a function of trxds is called in a Trio task, with an error that names the way for other programs.

Without it an asyncio program would get the first error of Trio's own, "must be called from async context", which its
caller is.
"""

from __future__ import annotations

import sys

import trio


def check_in_trio(function: str, in_asyncio: str, otherwise: str = "") -> None:
    """Raise `RuntimeError` unless the caller is a Trio task; the message names the `function` and the remedy."""
    if trio.lowlevel.in_trio_task():
        return
    if _is_in_asyncio():
        raise RuntimeError(
            f"{function} runs on Trio, and this task runs on asyncio; {in_asyncio} (docs/how-to/asyncio.md)"
        )
    raise RuntimeError(
        f"{function} runs on Trio, and no Trio runs here; begin with trio.run(main), or {otherwise or in_asyncio}"
    )


def _is_in_asyncio() -> bool:
    # A program that runs asyncio has imported it. trxds does not.
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.get_running_loop() is not None
    except RuntimeError:
        return False
