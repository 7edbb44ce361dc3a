"""A server far away: whatever comes is handed on so many seconds later. Prints its own address.

python flow_distance.py ADDRESS SECONDS. Its threads are nobody's CPU that is measured.
"""

from __future__ import annotations

import queue
import socket
import sys
import threading
import time
from contextlib import suppress

CHUNK = 256 * 1024


def main(host: str, port: int, delay: float) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"127.0.0.1:{listener.getsockname()[1]}", flush=True)
    while True:
        near, _ = listener.accept()
        far = socket.create_connection((host, port))
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            threading.Thread(target=take, args=(one, way, delay), daemon=True).start()
            threading.Thread(target=hand_on, args=(other, way), daemon=True).start()


def take(source: socket.socket, way: queue.SimpleQueue[tuple[float, bytes]], delay: float) -> None:
    data = b"?"
    while data:
        data = b""
        with suppress(OSError):
            data = source.recv(CHUNK)
        way.put((time.perf_counter() + delay, data))


def hand_on(target: socket.socket, way: queue.SimpleQueue[tuple[float, bytes]]) -> None:
    with suppress(OSError):
        while True:
            due, data = way.get()
            time.sleep(max(0.0, due - time.perf_counter()))
            if not data:
                return target.shutdown(socket.SHUT_WR)
            target.sendall(data)


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    main(host, int(port), float(sys.argv[2]))
