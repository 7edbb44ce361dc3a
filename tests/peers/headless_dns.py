"""A headless Service by the system's resolver. In namespaces of its own it prints which hosts calls met.

    unshare --map-root-user --mount --net python headless_dns.py FOLDER

The DNS server on 127.0.0.1:53, which only /etc/resolv.conf of this process names, answers with the pods: addresses of
loopback with a server each. It prints a JSON object of lists of hosts.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import trio

import trxds
from trxds.resolver import resolve_now
from trxds.testing import Call, Server, serve

NAME = "cart.shop.svc.cluster.local"
PORT = 50051
CONFIG = {"loadBalancingConfig": [{"round_robin": {}}]}
A, IN = 1, 1


class DnsServer:
    """Answers with `addresses` for NAME, and with nothing for other names and types."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)
        self.questions = 0

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        with trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM) as udp:
            await udp.bind(("127.0.0.1", 53))
            task_status.started()
            while True:
                request, client = await udp.recvfrom(512)
                await udp.sendto(self.answer(request), client)

    def answer(self, request: bytes) -> bytes:
        """RFC 1035: the header, the question again, and an A record for each address, with a pointer to its name."""
        labels, at = [], 12
        while length := request[at]:
            labels.append(request[at + 1 : at + 1 + length].decode())
            at += 1 + length
        kind, _ = struct.unpack_from("!HH", request, at + 1)
        known = kind == A and ".".join(labels) == NAME
        self.questions += known
        addresses = self.addresses if known else []
        header = request[:2] + struct.pack("!HHHHH", 0x8580, 1, len(addresses), 0, 0)
        records = [
            struct.pack("!HHHIH", 0xC00C, A, IN, 5, 4) + bytes(map(int, address.split("."))) for address in addresses
        ]
        return header + request[12 : at + 5] + b"".join(records)


async def spread(caller: trxds.Channel | trxds.Session, calls: int) -> list[str]:
    """The hosts that so many calls met, sorted."""
    add = caller.method("/shop.Cart/Add")
    met = [(await add.with_call(b"", wait_for_ready=True))[1].peer for _ in range(calls)]
    return sorted(set(map(str, met)))


async def main() -> None:
    resolve_now.MIN_RESOLUTION_INTERVAL = 0.1  # seconds, in place of 30
    pods = {f"127.0.0.{number}": f"127.0.0.{number}:{PORT}" for number in (2, 3, 4)}
    found = {}
    with trio.fail_after(50):
        async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
            servers: dict[str, Server] = {}
            for ip, address in pods.items():
                servers[ip] = await stack.enter_async_context(serve(address=address))
                servers[ip].fallback = echo
            dns = DnsServer("127.0.0.2", "127.0.0.3")
            await nursery.start(dns.run)
            async with trxds.open_channel(
                f"dns:///{NAME}:{PORT}", service_config=CONFIG, affinity=trxds.CookieAffinity("session")
            ) as channel:
                while len(met := await spread(channel, 8)) < 2:
                    pass  # the second one may not be connected yet
                found["of two pods"] = met
                async with channel.session(require=True) as session:
                    found["of a session"] = await spread(session, 8)
                    (home,) = found["of a session"]
                    leaving = next(ip for ip in dns.addresses if pods[ip] != home)
                    dns.addresses = [ip for ip in pods if ip != leaving]
                    servers[leaving].goaway()
                    while pods["127.0.0.4"] not in await spread(channel, 8):
                        pass
                    found["after a pod was replaced"] = await spread(channel, 8)
                    found["left"] = [pods[leaving]]
                    found["of the session after it"] = await spread(session, 8)
            nursery.cancel_scope.cancel()
    print(json.dumps(found | {"questions": dns.questions}))


async def echo(call: Call) -> None:
    async for message in call:
        await call.send(message)


if __name__ == "__main__":
    resolv = Path(sys.argv[1]) / "resolv.conf"
    resolv.write_text("nameserver 127.0.0.1\n", "utf-8")
    subprocess.run(["mount", "--bind", resolv, "/etc/resolv.conf"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    trio.run(main)
