"""trxds.sync or grpcio's blocking API: one stream of small messages.

python streams_client_sync.py trxds|grpcio ADDRESS receive|send|echo TIMES
"""

from __future__ import annotations

import queue
import sys

from measure import PAYLOAD, metered

LIBRARY, ADDRESS, KIND, TIMES = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


def with_trxds() -> None:
    import trxds.sync

    with trxds.sync.open_channel(f"ipv4:{ADDRESS}") as channel:

        def receive(times: int) -> None:
            with channel.method("/bench.Streams/Receive", server_streaming=True).open(b"%d" % times) as call:
                assert sum(1 for _ in call) == times

        def send(times: int) -> None:
            method = channel.method("/bench.Streams/Send", client_streaming=True)
            assert int(method(PAYLOAD for _ in range(times))) == times

        def echo(times: int) -> None:
            method = channel.method("/bench.Streams/Echo", client_streaming=True, server_streaming=True)
            with method.open() as call:
                for _ in range(times):
                    call.send(PAYLOAD)
                    assert call.receive() == PAYLOAD

        run = {"receive": receive, "send": send, "echo": echo}[KIND]
        run(50)
        with metered(TIMES):
            run(TIMES)


def with_grpcio() -> None:
    import grpc

    with grpc.insecure_channel(ADDRESS) as channel:

        def receive(times: int) -> None:
            assert sum(1 for _ in channel.unary_stream("/bench.Streams/Receive")(b"%d" % times)) == times

        def send(times: int) -> None:
            assert int(channel.stream_unary("/bench.Streams/Send")(PAYLOAD for _ in range(times))) == times

        def echo(times: int) -> None:
            requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
            call = channel.stream_stream("/bench.Streams/Echo")(iter(requests.get, None))
            for _ in range(times):
                requests.put(PAYLOAD)
                assert next(call) == PAYLOAD
            requests.put(None)

        run = {"receive": receive, "send": send, "echo": echo}[KIND]
        run(50)
        with metered(TIMES):
            run(TIMES)


{"trxds": with_trxds, "grpcio": with_grpcio}[LIBRARY]()
