"""A mesh whose hosts fail the first calls, and a route with a retry policy."""

from contextlib import asynccontextmanager

from support.mesh import Mesh, method

from trxds import StatusCode
from trxds.testing import resources as xds

PATH = "/shop.Cart/Fail"


class Failing:
    """Fails the first calls with a trailers-only response, then responds; records the messages of each attempt."""

    def __init__(self, times, code=StatusCode.UNAVAILABLE, headers=False):
        self.left, self.code, self.headers = times, code, headers
        self.attempts = []

    async def __call__(self, call):
        said = []
        self.attempts.append((call.metadata.first("grpc-previous-rpc-attempts"), said))
        if self.headers:
            await call.send_initial_metadata()
        if self.left:
            self.left -= 1
            async for message in call:
                said.append(message)
                if message == b"fail":
                    break
            call.abort(self.code, "told to")
        async for message in call:
            said.append(message)
            await call.send(message)


@asynccontextmanager
async def failing(times, retries=3, hosts=1, options=None, channel_options=None, **how):
    async with Mesh.run(hosts) as mesh:
        entry = xds.route("cart")
        entry["route"]["retry_policy"] = {
            "retry_on": "unavailable",
            "num_retries": retries,
            "retry_back_off": {"base_interval": "10s", "max_interval": "10s"},
        }
        mesh.plane.put(xds.routes("routes", entry))
        handler = Failing(times, **how)
        for server in mesh.servers.values():
            server.handlers[PATH] = handler
            if options is not None:
                server.options = options
        async with mesh.channel(**channel_options or {}) as channel:
            await method(channel)(b"")
            yield mesh, channel, handler
