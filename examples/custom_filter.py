"""An HTTP filter of your own: each tenant has a budget of calls, which the control plane sets for each route.

python examples/custom_filter.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import trio

import trxds
from trxds.filters import FilterContext, FilterStep, FilterType, PickArgs
from trxds.testing import Call, ManagementServer, resources, serve, unary

ADD, LIST = "/shop.Cart/Add", "/shop.Cart/List"
NAME = "example.Budget"


@dataclass(frozen=True)
class Settings:
    header: str
    calls: int


def settings(fields: Mapping[str, Any]) -> Settings:
    """An exception here refuses the listener, and the control plane gets its text."""
    if not isinstance(fields.get("calls"), int):
        raise ValueError("calls: not a whole number; write how many calls a tenant may make")
    return Settings(fields.get("header", "tenant"), fields["calls"])


class Budget:
    """Lets a tenant's calls pass while there is something left."""

    def __init__(self, settings: Settings, context: FilterContext) -> None:
        self.settings = settings
        # Shared by all routes, and kept when the control plane changes them.
        self.used: Counter[str] = context.shared.setdefault("used", Counter())

    def start(self, call: PickArgs) -> trxds.Status | None:
        tenant = self.tenant(call)
        refusal = self.refusal(tenant)
        if refusal is None:
            self.used[tenant] += 1
            left = self.settings.calls - self.used[tenant]
            call.metadata = trxds.Metadata([*call.metadata, ("budget-left", str(left))])
        return refusal

    def explain(self, call: PickArgs) -> FilterStep:
        """Count nothing: this is no call."""
        tenant = self.tenant(call)
        return FilterStep(f"{tenant} may make {self.settings.calls} calls", status=self.refusal(tenant))

    def refusal(self, tenant: str) -> trxds.Status | None:
        if self.used[tenant] < self.settings.calls:
            return None
        return trxds.Status(trxds.StatusCode.RESOURCE_EXHAUSTED, f"{tenant} has made {self.used[tenant]} calls")

    def tenant(self, call: PickArgs) -> str:
        return str(call.metadata.first(self.settings.header, "nobody"))


async def main() -> None:
    filters = {NAME: FilterType(Budget, settings)}
    async with (
        own_shop() as bootstrap,
        trxds.open_channel("xds:///shop", bootstrap=bootstrap, http_filters=filters) as channel,
    ):
        for method, item in ((ADD, "apples"), (ADD, "bread"), (ADD, "tea"), (LIST, "all")):
            try:
                reply = await channel.method(method)(item.encode(), metadata=[("tenant", "anna")], timeout=10)
                print(f"{item}: {reply.decode()}")
            except trxds.RpcError as error:
                print(f"{item}: {error.status.code.name}, {error.status.message}")
        explanation = await channel.explain(ADD, [("tenant", "anna")])
        print(*explanation.filters)


@asynccontextmanager
async def own_shop() -> AsyncIterator[dict[str, Any]]:
    """A server, and a control plane that has our filter in its listener, and more calls for one route."""

    async def left(request: bytes, call: Call) -> bytes:
        return f"{call.metadata.first('budget-left')} left".encode()

    plane = ManagementServer()
    budget = resources.custom_filter("budget", NAME, calls=2)
    more = resources.filter_overrides(budget=resources.typed_struct(NAME, calls=5))
    async with serve({ADD: unary(left), LIST: unary(left)}) as server, plane.serve() as address:
        plane.put(
            resources.listener("shop", routes="shop-routes", filters=[budget]),
            resources.routes(
                "shop-routes", resources.route("cart", prefix=LIST) | more, resources.route("cart", prefix="/")
            ),
            resources.cluster("cart"),
            resources.endpoints("cart", resources.locality(server.address)),
        )
        yield resources.bootstrap(address)


if __name__ == "__main__":
    trio.run(main)
