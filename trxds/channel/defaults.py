"""What the calls of a channel have unless they say otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trxds.wire.request import MAX_RECEIVE_SIZE

from .call_credentials import CallCredentials, check_call_credentials

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

    def __post_init__(self) -> None:
        for name in ("max_receive_size", "max_send_size"):
            size = getattr(self, name)
            if size < 0:
                raise ValueError(f"{name} is {size!r}; write a number of bytes, for no limit sys.maxsize")
        for each in self.credentials:
            check_call_credentials(each)
