"""Metadata with the secret in it, calls that carry it, and what has leaked of it."""

from __future__ import annotations

import base64

from support.secrecy import SECRET

from trxds import RpcError

B64 = base64.b64encode(SECRET.encode()).decode()
COOKIES = {
    "a cookie of another program": f"session={SECRET}",
    "one in base64": f"session={B64}",
    "one that is read as hosts": f"session={base64.b64encode(f'{SECRET},{SECRET};{SECRET}'.encode()).decode()}",
    "one that is read as a cluster": f"session={base64.b64encode(f';{SECRET}'.encode()).decode()}",
    "one with a zone": f"session={base64.b64encode(f'[fe80::1%{SECRET}]:1'.encode()).decode()}",
    "one that is too large": f"session={B64 * 1000}",
    "several": f"a={SECRET}; session={SECRET}; {SECRET}",
}
GOOD = {
    "a token": [("authorization", f"Bearer {SECRET}")],
    "several": [("authorization", f"Bearer {SECRET}"), ("authorization", SECRET)],
    "bytes": [("token-bin", SECRET.encode())],
    "a long one": [("authorization", f"Bearer {SECRET * 200}")],
    "one for the fault filter": [("x-envoy-fault-abort-grpc-request", SECRET)],
    **{f"cookie: {name}": [("cookie", cookie)] for name, cookie in COOKIES.items()},
}


def leaks(said):
    """The first few, short enough to read."""
    return [(where, text[:600]) for where, text in said.leaks[:3]]


async def tried(said, call, *args, **more):
    """One call; its reply and its error are looked at."""
    try:
        said.note("reply", await call(*args, **more))
    except (RpcError, ValueError, TypeError) as error:
        said.error(error)
