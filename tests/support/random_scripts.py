"""Random answers of a server, attempt by attempt, and random policies for the calls that get them.

They are for two clients that must do the same (`random_calls.py`). Not drawn is what grpcio 1.85
does otherwise, by `docs/grfc-map.md`: a `grpc-status`, a pushback and a base64 that are none, several values of a -bin
header in one field, REFUSED_STREAM, HTTP errors with a body, requests longer than the replay buffer, OK without the
one reply, unknown compressions. Nor a retry without a delay and a pushback of 0, with which its calls may hang; a
content-type that is not gRPC's, which it does not look at; and what no client can tell, such as data just before a
connection is cut.
"""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Sequence
from random import Random
from typing import Any

from .scripted_server import Action, Fields

PATIENCE = 30  # seconds for a call; on a busy machine a first one in Java takes more than five
RESPONSE: Fields = [(b":status", b"200"), (b"content-type", b"application/grpc")]
REPLY = b"\0\0\0\0\1r"
REPLY_AND_OK: list[Action] = [("request",), ("headers", RESPONSE), ("data", REPLY), ("end", [(b"grpc-status", b"0")])]
UNAVAILABLE: list[Action] = [("request",), ("end", [*RESPONSE, (b"grpc-status", b"14")])]
_CODES = ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "ABORTED", "CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED")
_CONDITIONS = ("cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable", "5xx", "aborted", "")
_MESSAGES = (b"plain", b"with%20percent", b"", b"%E2%82%AC", b"%zz", b"%", b"a%4", b"tail%00x", b"a b", b"100%25")
_RESETS = (0, 1, 2, 3, 5, 8, 11, 12, 13, 99)  # all but 7, REFUSED_STREAM


def retry_policy(draw: Random) -> dict[str, Any]:
    """A retry policy of a service config."""
    return {
        "maxAttempts": draw.choice([2, 3, 4, 5, 7]),
        "initialBackoff": "0.02s",
        "maxBackoff": draw.choice(["0.02s", "0.03s"]),
        "backoffMultiplier": draw.choice([1, 2, 0.8]),
        "retryableStatusCodes": draw.sample(_CODES, draw.randint(1, 4)),
    }


def route_retry_policy(draw: Random, most: int = 7) -> dict[str, Any]:
    """A retry policy of a route, with so many retries at most."""
    policy: dict[str, Any] = {
        "retry_on": ",".join(draw.sample(_CONDITIONS, draw.randint(1, 4))),
        "retry_back_off": {"base_interval": "0.02s", **draw.choice([{}, {"max_interval": "0.03s"}])},
    }
    if draw.random() < 0.8:
        policy["num_retries"] = min(draw.choice([1, 2, 3, 4, 7]), most)
    return policy


def call(draw: Random, name: str) -> dict[str, Any]:
    """A call of the script `name`."""
    kind = draw.choice(["unary", "unary", "client_stream", "server_stream", "bidi"])
    count = draw.choice([0, 1, 2, 3]) if kind in ("client_stream", "bidi") else 1
    messages = [base64.b64encode(draw.choice([b"", b"m", b"long" * 500])).decode() for _ in range(count)]
    return {"path": "/a/b", "kind": kind, "messages": messages, "metadata": [("x-script", name)], "timeout": PATIENCE}


def attempt(draw: Random, *, one_reply: bool, is_throttled: bool = False) -> list[Action]:
    """What a server does in one attempt, which `one_reply` keeps from ending with OK and another number of replies.

    With `is_throttled` it does not end the connection, and does not forbid retries, which takes no token from grpcio.
    """
    actions: list[Action] = [("request",)] if draw.random() < 0.7 else []
    kinds = ["end", "end", "end", "end", "headers", "reply", "reset"]
    kind = draw.choice(kinds if is_throttled else [*kinds, "goaway", "close", "http", "no status"])
    # grpcio may take headers for none that come together with the end of a stream, and retry.
    opening: list[Action] = draw.choice([[], [], [("headers", RESPONSE), ("sleep", 0.005)]])
    match kind:
        case "end":
            return [*actions, ("end", RESPONSE + _status(draw, one_reply, is_throttled))]
        case "headers":
            ending: Action = ("end", _status(draw, one_reply, is_throttled))
            return [*actions, ("headers", RESPONSE + metadata(draw)), ("sleep", 0.005), ending]
        case "reply":
            status = (b"grpc-status", draw.choice([b"0", b"0", b"0", b"14", b"8"]))
            head: Action = ("headers", RESPONSE + metadata(draw))
            return [*actions, head, ("data", REPLY), ("end", [status, *metadata(draw)])]
        case "reset":
            return [*actions, *opening, ("reset", draw.choice(_RESETS))]
        case "goaway":
            going = ("goaway", draw.choice([0, 1, 1]), draw.choice([0, 0, 2, 11]))
            # grpcio does not read a GOAWAY if a write finds the connection closed before it.
            written: list[Action] = [("request",)] if going[1] else []
            return [*actions, *opening, going, *written, ("sleep", draw.choice([0, 0.02])), ("close",)]
        case "close":
            return [("request",), *opening, draw.choice([("close",), ("cut",)]) if not opening else ("close",)]
        case "http":
            return [*actions, ("end", _http(draw))]
        case _:
            return [*actions, ("headers", RESPONSE), ("end_data", b"")]


def for_grpc_go(script: list[list[Action]], *, is_throttled: bool = False) -> list[list[Action]]:
    """The script without what grpc-go does otherwise, by `docs/grfc-map.md`."""
    return [
        [_for_grpc_go(*action, is_first=not number) for action in _without_headers(actions, is_throttled)]
        for number, actions in enumerate(script)
    ]


def _without_headers(actions: list[Action], is_throttled: bool) -> list[Action]:
    """Without headers before a GOAWAY, after which it retries; and before a failure, which takes no token from it."""
    kind, *what = actions[-1]
    fails = is_throttled and (kind == "reset" or (kind == "end" and what[0][0][1].strip(b"0")))
    if not fails and all(kind != "goaway" for kind, *_ in actions):
        return actions
    ending = [(kind, RESPONSE + what[0])] if kind == "end" and what[0][0][0] == b"grpc-status" else actions[-1:]
    return [action for action in actions[:-1] if action[0] not in ("headers", "data")] + ending


def _for_grpc_go(kind: str, *what: Any, is_first: bool) -> Action:
    match kind, what:
        case "goaway", (_, code) if not is_first:
            return kind, 0, code
        case "reset", (3 | 99,):  # FLOW_CONTROL_ERROR, and one that is not known
            return kind, 2
        case "end_data", _:
            return "end", [(b"grpc-status", b"2")]
        case "end", (fields,) if fields[0][0] == b":status" and fields[0][1] != b"200":
            return kind, fields[:1]
    return kind, *what


def for_grpc_java(script: list[list[Action]], *, is_throttled: bool = False) -> list[list[Action]]:
    """The script without what grpc-java does otherwise, by `docs/grfc-map.md`."""
    return [
        [
            each
            for action in _without_headers(actions, is_throttled)
            for each in _with_headers(_for_grpc_java(*action, is_first=not number), is_throttled)
        ]
        for number, actions in enumerate(script)
    ]


def _with_headers(action: Action, is_throttled: bool) -> list[Action]:
    """OK with headers before, without which it returns no token."""
    kind, *what = action
    if is_throttled and kind == "end" and what[0][: len(RESPONSE) + 1] == [*RESPONSE, (b"grpc-status", b"0")]:
        return [("headers", RESPONSE), (kind, what[0][len(RESPONSE) :])]
    return [action]


def _for_grpc_java(kind: str, *what: Any, is_first: bool) -> Action:
    match kind, what:
        case "goaway", (unprocessed, _):
            return kind, unprocessed if is_first else 0, 0
        case "reset", (0 | 13,):  # NO_ERROR and HTTP_1_1_REQUIRED
            return kind, 2
        case "end_data", _:
            return "end", [(b"grpc-status", b"2")]
        case "end", (fields,) if fields[0][0] == b":status" and fields[0][1] != b"200":
            return kind, [pair for pair in fields if pair[0] != b"grpc-status"]
        case "end", (fields,):  # any status is retried there if it has a pushback
            fields = [pair for pair in fields if pair[0] != b"grpc-retry-pushback-ms" or pair[1].startswith(b"-")]
            return kind, [
                (key, value.lstrip(b"0") or b"0" if key == b"grpc-status" else value) for key, value in fields
            ]
    return kind, *what


def metadata(draw: Random) -> Fields:
    return [_field(draw) for _ in range(draw.choice([0, 0, 1, 2]))]


def _field(draw: Random) -> tuple[bytes, bytes]:
    if draw.random() < 0.3:
        return b"x-c-bin", draw.choice([b"YWI", b"YWI=", b"", b"AAEC/w"])
    return draw.choice([b"x-a", b"x-b", b"grpc-x"]), draw.choice([b"1", b"YWI", b"", b"a b", b"a,b", b"~"])


def _status(draw: Random, one_reply: bool, is_throttled: bool) -> Fields:
    code = draw.choice([b"14", b"14", b"14", b"8", b"13", b"10", b"1", b"2", b"4", b"12", b"6" if one_reply else b"0"])
    fields = [(b"grpc-status", draw.choice([b"0", b""]) + code)]
    never = [] if is_throttled else [b"-1", b"-5"]
    if draw.random() < 0.7:
        fields.append((b"grpc-message", draw.choice(_MESSAGES)))
    if draw.random() < 0.2:
        fields.append((b"grpc-retry-pushback-ms", draw.choice([b"1", b"5", b"12", b"+4", b"007", *never])))
    return fields + metadata(draw)


def _http(draw: Random) -> Fields:
    """An HTTP status; it is all of the answer, as one with a body is no answer without headers for grpcio."""
    codes = (b"429", b"503", b"404", b"400", b"401", b"403", b"502", b"504", b"500", b"301")
    fields = [(b":status", draw.choice(codes))]
    if draw.random() < 0.5:
        fields.append((b"content-type", draw.choice([b"text/html", b"application/grpc"])))
    if draw.random() < 0.2:
        fields.append((b"grpc-status", b"8"))
    return fields


# -- messages

_SIZES = (0, 1, 5, 99, 100, 101, 1_000, 20_000)
_COMPRESS = {b"gzip": gzip.compress, b"deflate": zlib.compress}


def call_of_messages(draw: Random, name: str) -> dict[str, Any]:
    """A call whose requests may be compressed, and some larger than a limit."""
    kind = draw.choice(["unary", "client_stream", "server_stream", "bidi"])
    count = draw.choice([0, 1, 2, 5]) if kind in ("client_stream", "bidi") else 1
    sent = [base64.b64encode(_message(draw)).decode() for _ in range(count)]
    return {
        "path": "/a/b",
        "kind": kind,
        "messages": sent,
        "metadata": [("x-script", name)],
        "compression": draw.choice([0, 0, 1, 2]),
    }


def messages(
    draw: Random, *, one_reply: bool, early: bool, encodings: Sequence[bytes] = (b"gzip", b"deflate")
) -> list[Action]:
    """Replies of any size, compressed or not, in DATA frames that are cut anywhere; `early`, or after the request."""
    encoding = draw.choice([None, None, b"identity", *encodings])
    actions: list[Action] = [] if early else [("request",)]
    actions.append(("headers", RESPONSE + ([(b"grpc-encoding", encoding)] if encoding else [])))
    rest = b"".join(_framed(draw, encoding) for _ in range(1 if one_reply else draw.choice([0, 1, 2, 3, 8])))
    while rest:
        size = draw.choice([1, 3, 5, 7, 1_000, 16_000]) if len(actions) < 30 else 16_000
        actions.append(("data", rest[:size]))
        rest = rest[size:]
    return [*actions, ("end", [(b"grpc-status", draw.choice([b"0", b"0", b"0", b"9"]))])]


def read_messages(body: bytes) -> list[bytes]:
    """The messages in a request, decompressed."""
    found = []
    while body:
        size = int.from_bytes(body[1:5])
        content, compressed, body = body[5 : 5 + size], body[0], body[5 + size :]
        if compressed:
            content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else zlib.decompress(content)
        found.append(content)
    return found


def _message(draw: Random) -> bytes:
    return (b"ab" * 10_000)[: draw.choice(_SIZES)]


def _framed(draw: Random, encoding: bytes | None) -> bytes:
    content, compress = _message(draw), _COMPRESS.get(encoding or b"")
    is_compressed = compress is not None and draw.random() < 0.6
    if compress is not None and is_compressed:
        content = compress(content)
    return bytes([is_compressed]) + len(content).to_bytes(4) + content


# -- metadata

_GOOD_KEYS = ("x-a", "x-b", "x_under", "x.dot", "x-", "_", ".", "1", "grpc-foo", "accept", "cookie", "date")
_BAD_KEYS = ("", "a b", "a:b", ":path", ":foo", "x!", "x/", "x@", "x\n", "é")
_GOOD_VALUES = ("", "a", " a", "a ", "  ", "a,b", "a;b", "~", "%", '"q"', "x" * 1_000)
_BAD_VALUES = ("é", "\x7f", "\t", "a\tb", "a\nb", "\x00", "€", "a\r")
_BYTES = (b"", b"a", b"\x00\xff", b"a,b", b"x" * 500, bytes(range(256)), b"=")


def sent_metadata(draw: Random) -> list[tuple[str, str]]:
    """Metadata of a call; one pair in ten is none that a client may send."""
    return [_sent_pair(draw) for _ in range(draw.choice([0, 1, 2, 3]))]


def _sent_pair(draw: Random) -> tuple[str, str]:
    kind = draw.random()
    if kind < 0.3:
        return draw.choice(["x-c-bin", "x-bin", "grpc-foo-bin"]), base64.b64encode(draw.choice(_BYTES)).decode()
    keys, values = (_BAD_KEYS if kind < 0.35 else _GOOD_KEYS), (_BAD_VALUES if kind > 0.95 else _GOOD_VALUES)
    return draw.choice(keys), draw.choice(values)


def answer_with_metadata(draw: Random) -> list[Action]:
    """An answer whose headers and trailers have several fields, or whose trailers are all of it."""
    if draw.random() < 0.3:
        return [("request",), ("end", [*RESPONSE, (b"grpc-status", b"9"), *_fields(draw)])]
    head: Action = ("headers", RESPONSE + _fields(draw))
    return [("request",), head, ("data", REPLY), ("end", [(b"grpc-status", b"0"), *_fields(draw)])]


def _fields(draw: Random) -> Fields:
    return [_received_field(draw) for _ in range(draw.choice([0, 1, 3]))]


def _received_field(draw: Random) -> tuple[bytes, bytes]:
    if draw.random() < 0.3:
        value = base64.b64encode(draw.choice(_BYTES))
        return draw.choice([b"x-c-bin", b"x-bin"]), draw.choice([value, value.rstrip(b"=")])
    key = draw.choice([*_GOOD_KEYS, "server", "via", "x-envoy-upstream-service-time", "set-cookie", "content-encoding"])
    return key.encode(), draw.choice([each.encode() for each in _GOOD_VALUES])
