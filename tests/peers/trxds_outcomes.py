"""Our client in a process of its own: orders on stdin, what came of them on stdout, as with `grpcio_outcomes.py`.

With ONE_XDS_CLIENT in the environment all channels share one, with XDS_CREDENTIALS hosts get the TLS of their cluster,
also by SPIFFE bundle maps in a Python that is too old for them.
"""

import base64
import json
import os
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
import trio

import trxds

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tests/support

from support.verified_chain import show_verified_chains

PATIENCE = 8
COMPRESSIONS = ("identity", "deflate", "gzip")


async def main():
    show_verified_chains(pytest.MonkeyPatch())
    orders = json.load(sys.stdin)
    outcomes = [[] for _ in orders]
    limiter = trio.CapacityLimiter(int(sys.argv[1]))
    client = trxds.open_xds_client() if "ONE_XDS_CLIENT" in os.environ else nullcontext()
    async with client as shared, trio.open_nursery() as nursery:
        for order, into in zip(orders, outcomes, strict=True):
            nursery.start_soon(play, order, into, limiter, {"xds": shared} if shared else {})
    json.dump(outcomes, sys.stdout)


async def play(order, into, limiter, shared):
    arguments = {**order["ours"], **shared}
    if "XDS_CREDENTIALS" in os.environ:
        arguments["credentials"] = trxds.xds_credentials(trxds.insecure())
    if order["service_config"] is not None:
        arguments["service_config"] = order["service_config"]
    async with limiter, trxds.open_channel(order["target"], **arguments) as channel:
        first, *others = order["calls"]
        into.append(await timed_outcome(channel, **first))
        began = trio.current_time()
        for call in others:
            await trio.sleep_until(began + call.pop("at", 0))
            into.append(await timed_outcome(channel, **call))
        await trio.sleep(order["linger"])


async def timed_outcome(channel, at_once=1, **call):
    began = trio.current_time()
    if at_once == 1:
        return {**await outcome(channel, **call), "seconds": trio.current_time() - began}
    outcomes = []

    async def make():
        outcomes.append(await outcome(channel, **call))

    async with trio.open_nursery() as nursery:
        for _ in range(at_once):
            nursery.start_soon(make)
    codes = ", ".join(sorted(each["code"] for each in outcomes))
    return {"code": codes, "message": ", ".join(sorted({each["message"] for each in outcomes}))}


async def outcome(
    channel,
    path,
    kind="unary",
    messages=("",),
    metadata=(),
    timeout=PATIENCE,
    wait_for_ready=None,
    compression=0,
):
    requests = [base64.b64decode(message) for message in messages]
    pairs = [(key, base64.b64decode(value) if key.lower().endswith("-bin") else value) for key, value in metadata]
    how = {"metadata": pairs, "timeout": timeout, "wait_for_ready": wait_for_ready}
    if compression:
        how["compression"] = COMPRESSIONS[compression]
    sends, receives = kind in ("client_stream", "bidi"), kind in ("server_stream", "bidi")
    method = channel.method(path, client_streaming=sends, server_streaming=receives)
    replies = []
    try:
        if not receives:
            reply, call = await method.with_call(each(requests) if sends else requests[0], **how)
            replies.append(reply)
        else:
            async with method.open(None if sends else requests[0], **how) as call:
                if sends:
                    with suppress(trxds.RpcError):  # replies may have come before the failure
                        for request in requests:
                            await call.send(request)
                    call.done_sending()
                async for reply in call:
                    replies.append(reply)
        end = call
    except trxds.RpcError as error:
        end = error
    except (ValueError, TypeError) as error:
        return {"code": "REFUSED", "message": f"{type(error).__name__}: {error}"}
    return {
        "code": end.status.code.name,
        "message": end.status.message,
        "initial": texts(end.initial_metadata),
        "trailing": texts(end.trailing_metadata),
        "replies": [base64.b64encode(reply).decode() for reply in replies],
    }


async def each(requests):
    for request in requests:
        yield request


def texts(metadata):
    pairs = metadata or ()
    return [[key, base64.b64encode(value).decode() if isinstance(value, bytes) else value] for key, value in pairs]


if __name__ == "__main__":
    trio.run(main)
