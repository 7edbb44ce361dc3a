"""trxds is a proxyless gRPC client on Trio, with routes and sticky sessions from an xDS control plane.

    async with trxds.open_channel("xds:///greeter") as channel:
        greeter = channel.stub(helloworld_pb2.DESCRIPTOR.services_by_name["Greeter"])
        reply = await greeter.SayHello(HelloRequest(name="you"), timeout=2)

Loggers are `trxds.<package>`, such as `trxds.client`; they are silent unless the program configures logging, or the
environment has `TRXDS_LOG=xds,lb`.
"""

import logging
import os
from typing import TYPE_CHECKING

from trxds.client.call import Call
from trxds.client.call_credentials import AuthContext, CallCredentials
from trxds.client.call_protocol import CallOptions, CallProtocol, ResponseStream
from trxds.client.channel import Channel
from trxds.client.completed_call import CompletedCall
from trxds.client.credentials import insecure, tls, xds_credentials
from trxds.client.hosts import Host
from trxds.client.interceptors import CallDetails, FixedResponseCall, ForwardingCall, Interceptor, Next
from trxds.client.method import Method
from trxds.client.method_types import StreamStream, StreamUnary, UnaryStream, UnaryUnary
from trxds.client.mirroring import Mirroring
from trxds.client.open_channel import open_channel
from trxds.client.session import BoundCalls, Session, SessionPool
from trxds.client.session_event_stream import SessionEvents
from trxds.client.stub import MethodFactory, Stub
from trxds.core.connectivity import Connectivity
from trxds.core.log_setup import set_up_logging
from trxds.core.metadata import Metadata
from trxds.core.observe import AttemptObserver, CallObserver, CallStarted, Observer, Telemetry
from trxds.core.status import BootstrapError, RpcError, Status, StatusCode, TrxdsInternalError
from trxds.core.version import VERSION
from trxds.lb.override_host.repin_reason import RepinReason
from trxds.resolver.route_explanation import Explanation
from trxds.resources.cookie_affinity import CookieAffinity
from trxds.session_affinity.session_events import (
    SessionDraining,
    SessionEvent,
    SessionEventsLost,
    SessionHostLost,
    SessionMoved,
    SessionPinned,
)
from trxds.session_affinity.session_hosts import CookieKey, SessionHost
from trxds.session_affinity.session_token import SessionTokenError
from trxds.transport.compression import Compression

if TYPE_CHECKING:
    from trxds.client.shared_xds_client import SharedXdsClient, open_xds_client

__version__ = VERSION

logging.getLogger("trxds").addHandler(logging.NullHandler())
set_up_logging(os.environ)

__all__ = [
    "AttemptObserver",
    "AuthContext",
    "BootstrapError",
    "BoundCalls",
    "Call",
    "CallCredentials",
    "CallDetails",
    "CallObserver",
    "CallOptions",
    "CallProtocol",
    "CallStarted",
    "Channel",
    "CompletedCall",
    "Compression",
    "Connectivity",
    "CookieAffinity",
    "CookieKey",
    "Explanation",
    "FixedResponseCall",
    "ForwardingCall",
    "Host",
    "Interceptor",
    "Metadata",
    "Method",
    "MethodFactory",
    "Mirroring",
    "Next",
    "Observer",
    "RepinReason",
    "ResponseStream",
    "RpcError",
    "Session",
    "SessionDraining",
    "SessionEvent",
    "SessionEvents",
    "SessionEventsLost",
    "SessionHost",
    "SessionHostLost",
    "SessionMoved",
    "SessionPinned",
    "SessionPool",
    "SessionTokenError",
    "SharedXdsClient",
    "Status",
    "StatusCode",
    "StreamStream",
    "StreamUnary",
    "Stub",
    "Telemetry",
    "TrxdsInternalError",
    "UnaryStream",
    "UnaryUnary",
    "insecure",
    "open_channel",
    "open_xds_client",
    "tls",
    "xds_credentials",
]


if not TYPE_CHECKING:  # with it, type checkers would accept any name of this module

    def __getattr__(name: str) -> object:
        """Import the xDS client with the first of its names: channels without a control plane do not need it."""
        if name in ("SharedXdsClient", "open_xds_client"):
            from trxds.client import shared_xds_client

            return getattr(shared_xds_client, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
