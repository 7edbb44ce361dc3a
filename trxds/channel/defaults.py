"""What the calls of a channel have unless they say otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trxds.wire.request import MAX_RECEIVE_SIZE

from .call_credentials import CallCredentials

if TYPE_CHECKING:
    from .interceptors import Interceptor


@dataclass(frozen=True, slots=True)
class CallDefaults:
    """Sizes are bytes of one message, before it is compressed; `encoding` is empty for none."""

    max_receive_size: int = MAX_RECEIVE_SIZE
    max_send_size: float = math.inf
    encoding: str = ""
    credentials: tuple[CallCredentials, ...] = ()
    interceptors: tuple[Interceptor, ...] = ()
