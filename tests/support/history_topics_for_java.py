"""Topics of `history_topics.py` without what grpc-java does otherwise, by `docs/grfc-map.md`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Any

from xxhash import xxh64_intdigest

from trxds.testing import resources as xds

from .history_topics import Change, Limits, Loads, Rings


class RingsForJava(Rings):
    """Rings in which each host has a whole number of places, for grpc-java has an order of its own.

    It hashes the address with a slash before it, which is our hash_key, gives DRAINING endpoints no share, and makes
    another hash of two policies than A42.
    """

    sizes = (None, (1024, 4096), (1500, 4096))
    weights = (1, 1, 2, 4)
    shares = (1, 2, 4, 0, None)

    @staticmethod
    def _policies(draw: Random) -> list[Any]:
        made = Rings._policies(draw)
        return [{**each, "terminal": True} for each in made]

    @staticmethod
    def _key(draw: Random) -> str:
        """A key whose hash is not above all of the ring, where grpc-java takes the last entry."""
        while True:
            key = Rings._key(draw)
            hashes = (xxh64_intdigest(each.encode()) for each in (key, re.sub("[0-4]", "_", key)))
            if not any(2**63 - 2**57 < each < 2**63 for each in hashes):  # its numbers have a sign
                return key

    def endpoints(self, service: str, made: dict[str, Any]) -> None:
        super().endpoints(service, made)
        for each in (each for locality in made["endpoints"] for each in locality["lb_endpoints"]):
            where = each["endpoint"]["address"]["socket_address"]
            key = f"/{where['address']}:{where['port_value']}"
            each["metadata"] = {"filter_metadata": {"envoy.lb": {"hash_key": key}}}
            if each.get("health_status") == "DRAINING":
                each["health_status"] = "UNHEALTHY"


class LimitsForJava(Limits):
    """Each cluster's load is reported, without which grpc-java counts no calls."""

    keeps_services = True

    def changes(self) -> Sequence[Change]:
        return [each for each in super().changes() if each != self._edit_service]

    def cluster(self, name: str, made: dict[str, Any]) -> None:
        super().cluster(name, made)
        made |= xds.load_reports()


class LoadsForJava(Loads):
    """Which clusters are reported stays as it is, since grpc-java goes on with the policies that they have."""

    keeps_services = True

    def changes(self) -> Sequence[Change]:
        return [self._edit_asked] * 4
