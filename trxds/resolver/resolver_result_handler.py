"""`ResolverResultHandler` is what a resolver needs of its channel, whether a control plane is asked or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from trxds.core.connectivity import Connectivity

from .config_log import ConfigLog
from .config_selector import Selector
from .http_filters import MakeChain
from .route_timeout import TimeoutRule, max_stream_duration
from .routes import BindMirrors
from .service_config import ServiceConfig


class RootReport(Protocol):
    """The report of the root node, as far as the resolver reads it."""

    @property
    def picker(self) -> Any: ...
    @property
    def state(self) -> Connectivity: ...
    @property
    def generation(self) -> int: ...


class SubchannelRetention(Protocol):
    """The subchannel pool: between these two calls it closes no subchannel, so one that moves keeps its connection."""

    def begin_update(self) -> None: ...
    def end_update(self) -> None: ...


class ResolverResultHandler(Struct, frozen=True):
    """The receiver of a resolver's results. `configure` gets what was resolved, with a generation number.

    `apply_config` gets the service config of a target without a control plane, and each that takes its place.
    """

    configure: Callable[[Any, int], object]
    publish: Callable[[Selector, RootReport], object]
    make_chain: MakeChain
    pool: SubchannelRetention
    log: ConfigLog
    bind_mirrors: BindMirrors | None  # None: the channel copies no calls
    apply_config: Callable[[ServiceConfig], object]
    limits: TimeoutRule = max_stream_duration
