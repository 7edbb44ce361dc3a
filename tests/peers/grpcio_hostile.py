"""What grpcio's client makes of hostile servers: orders as JSON on stdin, the codes of its calls as JSON on stdout.

Run by `test_grpcio_hostile.py`; every server has a channel of its own, and all are called at the same time.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc

PATIENCE = 40  # seconds for one call; a slow machine takes ten for all that the servers send at once


def main():
    orders = json.load(sys.stdin)
    with ThreadPoolExecutor(len(orders)) as threads:
        codes = threads.map(lambda order: play(**order), orders.values())
        json.dump(dict(zip(orders, codes, strict=True)), sys.stdout)


def play(address, calls, at_once, request):
    with grpc.insecure_channel(address) as channel:
        method = channel.unary_unary("/shop.Cart/Add")
        if not at_once:
            return [code_of(method.future(bytes(request), timeout=PATIENCE)) for _ in range(calls)]
        futures = [method.future(bytes(request), timeout=PATIENCE) for _ in range(calls)]
        return [code_of(future) for future in futures]


def code_of(future):
    return future.code().name


if __name__ == "__main__":
    main()
