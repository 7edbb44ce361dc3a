"""A bare echo over TCP, the unit in which a change of the configuration is counted. Prints its address."""

from __future__ import annotations

import socketserver


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(4096):
            self.request.sendall(data)


with socketserver.TCPServer(("127.0.0.1", 0), Echo) as server:
    print(f"127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
