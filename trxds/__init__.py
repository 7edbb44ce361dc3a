"""trxds: a proxyless gRPC client on Trio, with routes and sticky sessions from an xDS control plane.

    async with trxds.open_channel("xds:///greeter") as channel:
        greeter = channel.stub(helloworld_pb2.DESCRIPTOR.services_by_name["Greeter"])
        reply = await greeter.SayHello(HelloRequest(name="you"), timeout=2)

Loggers are `trxds.<room>`, silent unless the program configures logging.
"""

import logging

from trxds.channel.call import Call
from trxds.channel.call_credentials import AuthContext, CallCredentials
from trxds.channel.call_protocol import CallOptions, CallProtocol, ResponseStream
from trxds.channel.channel import Channel, Session, open_channel
from trxds.channel.completed_call import CompletedCall
from trxds.channel.credentials import insecure, tls, xds_credentials
from trxds.channel.interceptors import CallDetails, FixedResponseCall, ForwardingCall, Interceptor, Next
from trxds.channel.method import Method
from trxds.channel.method_types import StreamStream, StreamUnary, UnaryStream, UnaryUnary
from trxds.channel.stub import MethodFactory, Stub
from trxds.channel.xds import SharedXdsClient, open_xds_client
from trxds.config.explain import Explanation
from trxds.ground.connectivity import Connectivity
from trxds.ground.metadata import Metadata
from trxds.ground.observe import AttemptObserver, CallObserver, CallStarted, Observer, Telemetry
from trxds.ground.status import BootstrapError, RpcError, Status, StatusCode, TrxdsInternalError
from trxds.ground.version import VERSION

__version__ = VERSION

logging.getLogger("trxds").addHandler(logging.NullHandler())

__all__ = [
    "AttemptObserver",
    "AuthContext",
    "BootstrapError",
    "Call",
    "CallCredentials",
    "CallDetails",
    "CallObserver",
    "CallOptions",
    "CallProtocol",
    "CallStarted",
    "Channel",
    "CompletedCall",
    "Connectivity",
    "Explanation",
    "FixedResponseCall",
    "ForwardingCall",
    "Interceptor",
    "Metadata",
    "Method",
    "MethodFactory",
    "Next",
    "Observer",
    "ResponseStream",
    "RpcError",
    "Session",
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
