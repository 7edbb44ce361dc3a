"""Hosts that fail until outlier detection takes them out (A50)."""

from contextlib import suppress

import trio
from support.mesh import Mesh, ask

from trxds import RpcError, StatusCode
from trxds.testing import resources as xds

# A host that fails is out within a second, and for good; one of two.
EJECTION = {
    "interval": "1s",
    "base_ejection_time": "3600s",
    "max_ejection_percent": 50,
    "failure_percentage_threshold": 50,
    "enforcing_failure_percentage": 100,
    "failure_percentage_minimum_hosts": 2,
    "failure_percentage_request_volume": 1,
    "enforcing_success_rate": 0,
}

# One is out after ten seconds; a second would be more than a tenth of all.
_EJECTION_OF_ONE = {
    "interval": "10s",
    "max_ejection_percent": 10,
    "enforcing_success_rate": 0,
    "enforcing_failure_percentage": 100,
    "failure_percentage_threshold": 50,
    "failure_percentage_minimum_hosts": 1,
    "failure_percentage_request_volume": 3,
}


async def broken(call):
    call.abort(StatusCode.UNAVAILABLE, "broken")


async def eject_one_of_two(telemetry):
    """Both hosts fail, and only one may be taken out; `telemetry` is the channel's."""
    async with Mesh.run(2, sessions=False) as mesh:
        mesh.plane.put({**xds.cluster("cart"), "outlier_detection": _EJECTION_OF_ONE})
        for server in mesh.servers.values():
            server.fallback = broken
        async with mesh.channel(telemetry=telemetry) as channel:
            for _ in range(12):
                with suppress(RpcError):
                    await ask(channel)
            await trio.sleep(11)
