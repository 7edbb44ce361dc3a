"""The stateful session filter (A55, A60): a cookie in, an override; the host used, a Set-Cookie out."""

from __future__ import annotations

import time
from collections.abc import Callable

from trxds.ground.metadata import Metadata
from trxds.lb.pick import Override, PickArgs
from trxds.resources.filters import CookieConfig

from . import cookie

NOTHING = cookie.SessionCookie("")


class StatefulSession:
    """One configured instance, for every RPC of the routes that share the configuration."""

    def __init__(self, config: CookieConfig, epoch: Callable[[], float] = time.time) -> None:
        self._config = config
        self._epoch = epoch

    async def start(self, call: PickArgs) -> Callable[[Metadata], Metadata] | None:
        """Reads the cookie; the answer is what the response's metadata has to pass."""
        if not cookie.path_matches(self._config.path, call.path):
            return None
        held = self._read(call.metadata)
        # Set even without a cookie: the pick notes in it which host this session is given.
        override = call.override = Override(tuple(held.addresses.split(",")) if held.addresses else ())
        if held.cluster and call.route is not None and call.route.has(held.cluster):
            call.cluster = held.cluster

        def respond(metadata: Metadata) -> Metadata:
            if not override.actual or (override.actual, call.cluster) == (held.addresses, held.cluster):
                return metadata
            value = cookie.encode(override.actual, call.cluster)
            return Metadata((*metadata, ("set-cookie", cookie.set_cookie(self._config, value))))

        return respond

    def _read(self, metadata: Metadata) -> cookie.SessionCookie:
        headers = [value for value in metadata.all("cookie") if isinstance(value, str)]
        value = cookie.find(headers, self._config.name) if headers else None
        return (cookie.decode(value, self._epoch()) if value else None) or NOTHING
