"""The scripts of the hostile servers, played to grpcio's client on loopback: what it makes of them and what we do.

A script that grpcio took for something else than we do might be a mistake of the script's, so `DIFFERENT` says why
where the two differ. That it never means that ours is OK and grpcio's a failure of the same frames is the point: only
padding and responses of 1xx, which it does not know.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from support.hostile.document import rows
from support.hostile.peer import Peer, Script
from support.hostile.scripts import SCRIPTS

CLIENT = Path(__file__).with_name("grpcio_hostile.py")
# grpcio's calls to the first do not even end at their deadline; those to the second hang until then, now and then.
HANGS = {"open_windows_and_no_reading", "goaway_first_of_all"}
PLAYED = {name: script for name, script in SCRIPTS.items() if script.reads and name not in HANGS}

# Why grpcio's client sees another code than docs/hostile-servers.md has for ours: the code, and for which scripts.
DIFFERENT: dict[str, tuple[str, set[str]]] = {
    "it ignores frames on streams that are not open, and frames too early": (
        "DEADLINE_EXCEEDED",
        {
            "data_on_stream_0",
            "headers_on_stream_0",
            "data_on_an_idle_stream",
            "headers_on_an_idle_stream",
            "headers_on_an_even_stream",
            "streams_of_the_servers_own",
            "window_of_an_idle_stream",
            "data_before_headers",
            "push_promise",
            "no_http_status",
        },
    ),
    "it does not mind windows that are opened too far, and waits for the end of a frame however long": (
        "DEADLINE_EXCEEDED",
        {"window_overflow_of_a_stream", "window_overflow_of_the_connection", "frame_too_large"},
    ),
    "its unary calls wait for a status behind a second message": (
        "DEADLINE_EXCEEDED",
        {"second_message", "truncated_prefix"},
    ),
    "its unary calls may have no reply, or half of one": ("OK", {"no_message", "truncated_message"}),
    "it looks at the lowest bit only": ("OK", {"compressed_flag_of_2"}),
    "its calls say UNKNOWN when the connection ends for a breach of the protocol": (
        "UNKNOWN",
        {
            "headers_twice",
            "ping_inside_of_headers",
            "continuation_of_nothing",
            "ping_of_7_bytes",
            "reset_of_3_bytes",
            "goaway_of_7_bytes",
            "window_of_5_bytes",
            "settings_of_5_bytes",
            "settings_on_a_stream",
            "largest_frame_below_16_kib",
            "window_overflow_by_settings",
            "window_opened_by_nothing",
        },
    ),
    "it takes a second header block for trailers, also behind a response of 1xx": ("UNKNOWN", {"informational_flood"}),
    "it takes any number of frames that carry nothing of a call": (
        "OK",
        {
            "empty_data_flood",
            "unknown_frame_flood",
            "priority_flood",
            "window_flood",
            "ping_flood",
            "ping_ack_flood",
            "settings_flood",
        },
    ),
    "it takes the first of two": ("OK", {"http_status_twice"}),
    "it reads on, and waits": ("DEADLINE_EXCEEDED", {"ping_flood_of_the_deaf", "settings_flood_of_the_deaf"}),
    "it knows no padding in DATA": (
        "INTERNAL",
        {"data_frame_padding", "padding_flood", "padding_longer_than_its_frame"},
    ),
    "what it cannot parse is INTERNAL": (
        "INTERNAL",
        {
            "status_of_no_number",
            "status_below_0",
            "broken_message_and_details",
            "headers_of_no_sense",
            "continuation_flood_of_nothing",
        },
    ),
    "headers far beyond its limit cost the call only": (
        "RESOURCE_EXHAUSTED",
        {"continuation_flood", "continuation_flood_of_large_frames"},
    ),
}


class Theatre:
    """Each script on a port of its own."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._numbers: dict[str, int] = {}

    async def open(self, script: Script) -> dict[str, Any]:
        """What the client is told: where, and which calls to make."""
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self._nursery.start_soon(trio.serve_listeners, partial(self._serve, script), [listener])
        address = f"127.0.0.1:{listener.socket.getsockname()[1]}"
        return {"address": address, "calls": script.calls, "at_once": script.at_once, "request": script.request}

    async def _serve(self, script: Script, transport: trio.SocketStream) -> None:
        self._numbers[script.name] = number = self._numbers.get(script.name, 0) + 1
        await Peer(transport, number).run(script)


def expected() -> dict[str, list[str]]:
    """What the document says of ours, but where grpcio is known to differ."""
    codes = {name: row.code.name for name, row in rows().items()}
    for code, names in DIFFERENT.values():
        codes.update(dict.fromkeys(names, code))
    return {name: [codes[name]] * script.calls for name, script in PLAYED.items()}


@pytest.mark.long
async def test_grpcio_sees_in_each_script_what_we_see_or_differs_for_a_reason() -> None:
    async with trio.open_nursery() as nursery:
        theatre = Theatre(nursery)
        orders = {name: await theatre.open(script) for name, script in PLAYED.items()}
        done = await trio.run_process(
            [sys.executable, str(CLIENT)],
            stdin=json.dumps(orders).encode(),
            capture_stdout=True,
            capture_stderr=True,  # where it logs
        )
        nursery.cancel_scope.cancel()
    assert json.loads(done.stdout) == expected()
