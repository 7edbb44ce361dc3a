"""Rows of control planes: the channel to each xDS server, and why it has no stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from trxds.xds.xds_channel import XdsChannel

from .messages import ControlPlaneRow


def control_planes(
    channel: str, xds_channels: Iterable[XdsChannel], epoch: Callable[[float], float]
) -> Iterator[tuple[str, ControlPlaneRow]]:
    """Return the rows of the channels to xDS servers that an xDS client has."""
    for each in xds_channels:
        yield (
            f"{channel}/{each.kind}/{each.uri}",
            {
                "channel": channel,
                "kind": each.kind,
                "server": each.uri,
                "state": each.state.name,
                "since": None if each.changed_at == -math.inf else epoch(each.changed_at),
                "error": each.error,
            },
        )
