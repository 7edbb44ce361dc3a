"""A service config for the calls of a mesh: what a target without a control plane has, over the routes of one."""

from __future__ import annotations

from contextlib import asynccontextmanager

from msgspec import structs

from trxds.client.retry_throttle import RetryThrottle
from trxds.resolver.routes import BoundRoutes
from trxds.resolver.service_config import parse_service_config


@asynccontextmanager
async def configured(monkeypatch, mesh, document, **more):
    """A channel whose routes say what `document` says of the method "/shop.Cart/Fail", and its retry throttle."""
    monkeypatch.setattr(BoundRoutes, "_bind", bind_with(document))
    async with mesh.channel(**more) as channel:
        throttling = parse_service_config(document).throttling
        channel._state.throttle = RetryThrottle(throttling) if throttling is not None else None
        yield channel


def bind_with(document, bind=BoundRoutes._bind):
    """In the place of what binds routes: their calls do what the document says of "/shop.Cart/Fail"."""
    config = parse_service_config(document).method("/shop.Cart/Fail")
    return lambda self, route, number: structs.replace(bind(self, route, number), config=config)


def for_all(throttling=None, **fields):
    """The document that says this of all methods."""
    document = {"methodConfig": [{"name": [{}], **fields}]}
    return document if throttling is None else {**document, "retryThrottling": throttling}
