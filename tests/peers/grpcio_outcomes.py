"""A grpcio client in a process of its own: orders of `two_clients.py` as JSON on stdin, what came of them on stdout.

The calls of a channel are made one after the other; so many channels as the argument says are open at the same time.
With XDS_CREDENTIALS in the environment their hosts get the TLS that their cluster has.
"""

import base64
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import grpc.experimental

PATIENCE = 8  # seconds for one call, connecting included


def main():
    orders = json.load(sys.stdin)
    with ThreadPoolExecutor(int(sys.argv[1])) as threads:
        json.dump(list(threads.map(play, orders)), sys.stdout)


def play(order):
    options = order["options"]
    if order["service_config"] is not None:
        options["grpc.service_config"] = json.dumps(order["service_config"])
    # A pool of its own: grpcio's channels share their connections otherwise, and a script may end one.
    options["grpc.use_local_subchannel_pool"] = 1
    credentials = grpc.experimental.insecure_channel_credentials()
    if "XDS_CREDENTIALS" in os.environ:
        credentials = grpc.xds_channel_credentials(credentials)
    with grpc.secure_channel(order["target"], credentials, options=list(options.items())) as channel:
        first, *others = order["calls"]
        outcomes = [timed_outcome(channel, **first)]
        began = time.monotonic()
        for call in others:
            time.sleep(max(began + call.pop("at", 0) - time.monotonic(), 0))
            outcomes.append(timed_outcome(channel, **call))
        time.sleep(order["linger"])
    return outcomes


def timed_outcome(channel, at_once=1, **call):
    began = time.monotonic()
    if at_once == 1:
        return {**outcome(channel, **call), "seconds": time.monotonic() - began}
    with ThreadPoolExecutor(at_once) as threads:
        outcomes = list(threads.map(lambda _: outcome(channel, **call), range(at_once)))
    codes = ", ".join(sorted(each["code"] for each in outcomes))
    return {"code": codes, "message": ", ".join(sorted({each["message"] for each in outcomes}))}


def outcome(
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
        how["compression"] = grpc.Compression(compression)
    sends, receives = kind in ("client_stream", "bidi"), kind in ("server_stream", "bidi")
    begin = getattr(channel, f"{'stream' if sends else 'unary'}_{'stream' if receives else 'unary'}")(path)
    request = iter(requests) if sends else requests[0]
    replies = []
    try:
        if receives:
            call = begin(request, **how)
            for reply in call:
                replies.append(reply)
        else:
            call = begin.future(request, **how)
            replies = [call.result()]
    except grpc.RpcError:
        pass  # the call has the status
    except Exception as error:
        return {"code": "REFUSED", "message": f"{type(error).__name__}: {error}"}
    return {
        "code": call.code().name,
        "message": call.details(),
        "initial": texts(call.initial_metadata()),
        "trailing": texts(call.trailing_metadata()),
        "replies": [base64.b64encode(reply).decode() for reply in replies if reply is not None],
    }


def texts(metadata):
    pairs = metadata or ()
    return [[key, base64.b64encode(value).decode() if isinstance(value, bytes) else value] for key, value in pairs]


if __name__ == "__main__":
    main()
