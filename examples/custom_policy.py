"""A load balancing policy of your own: all calls of one tenant meet one host.

The control plane asks for it by its type's name, and tells it which header has the tenant.

    python examples/custom_policy.py
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import trio

import trxds
from trxds.policies import (
    QUEUE_PICKER,
    ChannelControl,
    Complete,
    Connectivity,
    Decision,
    Fail,
    PickArgs,
    PickResult,
    PolicyInputs,
    PolicyType,
    Queue,
    SubchannelInterface,
    aggregate,
    transient_failure_picker,
)
from trxds.testing import Call, Handler, ManagementServer, resources, serve, unary

ADD = "/shop.Cart/Add"
NAME = "example.ByTenant"


@dataclass(frozen=True)
class Settings:
    header: str


def settings(fields: Mapping[str, Any]) -> Settings:
    """What it raises, the control plane is told."""
    if not fields.get("header"):
        raise ValueError("header: not set; name the header that has the tenant")
    return Settings(fields["header"])


class ByTenant:
    """Told all that it can see whenever some of it has changed, it says all that it wants."""

    def __init__(self, channel_control: ChannelControl) -> None:
        pass  # there is chance in it, and what a picker may wish for; this policy needs neither

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        addresses = tuple(endpoint.addresses[0] for endpoint in inputs.endpoints)
        if not addresses:
            status = trxds.Status(trxds.StatusCode.UNAVAILABLE, inputs.endpoints.note)
            return Decision(Connectivity.TRANSIENT_FAILURE, transient_failure_picker(status))
        if inputs.hosts.keys() != set(addresses):
            return Decision(Connectivity.CONNECTING, QUEUE_PICKER, hosts=addresses)  # asked again once it has them
        hosts = tuple(inputs.hosts[address] for address in addresses)
        picker = TenantPicker(inputs.config.settings.header, hosts)
        return Decision(aggregate(host.state for host in hosts), picker, hosts=addresses, connect=addresses)


@dataclass(frozen=True)
class TenantPicker:
    header: str
    hosts: tuple[SubchannelInterface, ...]

    def pick(self, call: PickArgs) -> PickResult:
        """Plain, and called for every RPC."""
        tenant = str(call.metadata.first(self.header) or "")
        host = self.hosts[crc32(tenant.encode()) % len(self.hosts)]
        if host.state is Connectivity.READY:
            return Complete(host)
        if host.state is Connectivity.TRANSIENT_FAILURE and host.error is not None:
            return Fail(host.error)
        return Queue()  # until the next decision


async def main() -> None:
    policies = {NAME: PolicyType(ByTenant, settings)}
    async with (
        own_shop() as bootstrap,
        trxds.open_channel("xds:///shop", bootstrap=bootstrap, policies=policies) as channel,
    ):
        add = channel.method(ADD)
        for order in ("anna:apples", "ben:tea", "anna:bread", "anna:cheese", "ben:milk"):
            tenant, _, item = order.partition(":")
            cart = await add(item.encode(), metadata=[("tenant", tenant)], timeout=10)
            print(f"{tenant}: {cart.decode()}")


@asynccontextmanager
async def own_shop() -> AsyncIterator[dict[str, Any]]:
    """Three servers, and a control plane that has the cluster balanced by our policy."""
    plane = ManagementServer()
    cluster = resources.cluster("shop-cluster") | resources.custom_policy(NAME, header="tenant")
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serve({ADD: carts()})) for _ in range(3)]
        address = await stack.enter_async_context(plane.serve())
        plane.put(
            resources.listener("shop", routes="shop-routes"),
            resources.routes("shop-routes", resources.route("shop-cluster")),
            cluster,
            resources.endpoints("shop-cluster", resources.locality(*(server.address for server in servers))),
        )
        yield resources.bootstrap(address)


def carts() -> Handler:
    """A server that keeps a cart for each tenant that it meets."""
    contents: dict[str, list[str]] = {}

    async def add(request: bytes, call: Call) -> bytes:
        cart = contents.setdefault(str(call.metadata.first("tenant")), [])
        cart.append(request.decode())
        return ", ".join(cart).encode()

    return unary(add)


if __name__ == "__main__":
    trio.run(main)
