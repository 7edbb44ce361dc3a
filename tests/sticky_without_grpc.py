"""A program for `test_house.py`: a sticky RPC through ADS, where neither `grpc` nor OpenTelemetry can be imported."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class Blocked(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.partition(".")[0] in {"grpc", "opentelemetry"}:
            raise ImportError(f"{fullname} is blocked in this process")


sys.meta_path.insert(0, Blocked())

import trio  # noqa: E402

import trxds  # noqa: E402
from trxds.testing import Call, Handler, ManagementServer, resources, serve, unary  # noqa: E402

METHOD = "/shop.Cart/Add"


def handler_of(name: bytes) -> Handler:
    async def answer(request: bytes, call: Call) -> bytes:
        return name

    return unary(answer)


async def main() -> None:
    plane = ManagementServer()
    async with (
        serve({METHOD: handler_of(b"first")}) as first,
        serve({METHOD: handler_of(b"second")}) as second,
        plane.serve() as address,
    ):
        plane.put(
            resources.listener("shop", routes="r", filters=[resources.stateful_session()]),
            resources.routes("r", resources.route("cart")),
            resources.cluster("cart"),
            resources.endpoints("cart", resources.locality(first.address, second.address)),
        )
        async with trxds.open_channel("xds:///shop", bootstrap=resources.bootstrap(address)) as channel:
            add = channel.method(METHOD)
            strangers = {await add(b"", timeout=10) for _ in range(20)}
            async with channel.session() as session:
                met = {await session.method(METHOD)(b"", timeout=10) for _ in range(20)}
    assert strangers == {b"first", b"second"}, strangers
    assert len(met) == 1, met
    assert "grpc" not in sys.modules


trio.run(main)
print("one host for the session")
