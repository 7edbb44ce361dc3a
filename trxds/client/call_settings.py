"""`CallSettings` are the channel's defaults, the caller's options and the route's limits for one call."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from trxds.core.arguments import check_whole
from trxds.resolver.method_config import MethodConfig
from trxds.resolver.target_uri import checked_authority
from trxds.transport.compression import Compression, parse_encoding
from trxds.transport.request import MAX_RECEIVE_SIZE

from .call_credentials import CallCredentials, check_call_credentials

MAX_ATTEMPTS = 5  # A6


@dataclass(slots=True)
class CallSettings:
    """The settings of a channel, a method or a call; they are not changed after construction.

    Sizes are bytes of one uncompressed message; an empty `encoding` is no compression. `max_attempts`, the first
    included, counts where a policy for retries or hedging allows more. `one_reply`: the method does not stream its
    replies. An `authority` is the caller's, or for a copy its policy's, and goes before any other (A81); the `audience`
    of call credentials is the caller's alone. A channel has one instance, each method a copy, and a call its own only
    if it differs.
    """

    max_receive_size: int = MAX_RECEIVE_SIZE
    max_send_size: float = math.inf
    encoding: str = ""
    credentials: tuple[CallCredentials, ...] = ()
    max_attempts: int = MAX_ATTEMPTS
    wait_for_ready: bool | None = None
    one_reply: bool = False
    authority: str = ""
    audience: str = ""
    _limited: tuple[MethodConfig, CallSettings] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for each in self.credentials:
            check_call_credentials(each)

    def for_call(
        self,
        wait_for_ready: bool | None,
        encoding: str | None,
        credentials: CallCredentials | None,
        authority: str | None,
    ) -> CallSettings:
        """Return the settings with the caller's options; its `credentials` are added to the channel's."""
        own = checked_authority(authority) if authority else ""
        return replace(
            self,
            wait_for_ready=wait_for_ready,
            encoding=self.encoding if encoding is None else encoding,
            credentials=self.credentials if credentials is None else (*self.credentials, credentials),
            authority=own,
            audience=own,
        )

    def limited_by(self, config: MethodConfig) -> CallSettings:
        """Return the settings under a method config; the smaller limits and the caller's options win (gRFC A2)."""
        # Successive calls of a method have the same config, so the last result is usually right.
        if self._limited is None or self._limited[0] is not config:
            self._limited = config, self._limited_by(config)
        return self._limited[1]

    def _limited_by(self, config: MethodConfig) -> CallSettings:
        receive, send = config.max_response_size, config.max_request_size
        return replace(
            self,
            max_receive_size=self.max_receive_size if receive is None else min(self.max_receive_size, receive),
            max_send_size=self.max_send_size if send is None else min(self.max_send_size, send),
            wait_for_ready=config.wait_for_ready if self.wait_for_ready is None else self.wait_for_ready,
        )


def channel_settings(
    max_receive_size: int,
    max_send_size: int | None,
    compression: Compression,
    credentials: tuple[CallCredentials, ...],
    max_call_attempts: int,
) -> CallSettings:
    """Return the defaults of a channel's calls; `ValueError` names a number, or a compression, that is wrong."""
    _check_size("max_receive_size", max_receive_size, "sys.maxsize")
    if max_send_size is not None:
        _check_size("max_send_size", max_send_size, "None")
    check_whole("max_call_attempts", max_call_attempts, 1, "a whole number, 1 or more")
    send_limit = math.inf if max_send_size is None else max_send_size
    return CallSettings(max_receive_size, send_limit, parse_encoding(compression), credentials, max_call_attempts)


def _check_size(name: str, size: int, unlimited: str) -> None:
    # `math.inf` is no whole number, and has always been taken.
    if size != math.inf:
        check_whole(name, size, 0, f"a whole number of bytes from 0, for no limit {unlimited}")
