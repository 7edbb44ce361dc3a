"""What comes in at the edges: HTTP and a WebSocket's messages, files, a peer's certificate, protoc's descriptors."""

from __future__ import annotations

import ast
import json
import logging
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any

import trio
import trustme
from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest
from support.pki import DER, Authority, bundle, bundle_map
from trio_websocket import CloseReason, ConnectionClosed

from trxds.admin.access import SUBPROTOCOL, AccessPolicy
from trxds.admin.address import Admin
from trxds.admin.http import HttpRequest, error_response, new_connection, read_head
from trxds.admin.http_service import HttpService
from trxds.admin.page.explain_request import explain
from trxds.admin.page.viewer import Viewer
from trxds.admin.server import AdminConnections
from trxds.admin.state_stream import open as open_state_stream
from trxds.cli.check import check
from trxds.cli.control_plane import read_for_clients as read_resources
from trxds.cli.running.program import Program, UnreachableError
from trxds.core.metadata import check as check_metadata
from trxds.generate.plugin import answer
from trxds.resources.matchers import Exact, Prefix
from trxds.resources.peer_names import wrong_peer
from trxds.resources.upstream_tls import UpstreamTls
from trxds.testing import resources as xds
from trxds.testing.network import memory_stream_pair
from trxds.transport.certificates import CertificateFiles, FreshContext
from trxds.transport.crls import read_crls
from trxds.transport.der import certificate_facts, crl_facts
from trxds.transport.file_content import FileContent
from trxds.transport.spiffe_bundles import parse_bundle_map
from trxds.xds.cache_file import CachedResource, DamagedCacheError, decode_cache, encode_cache

from .target import Target


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class Closed:
    """A channel that only says what it is."""

    def admin_view(self) -> Any:
        return SimpleNamespace(target="xds:///shop")

    async def explain(self, method: str, metadata: Iterable[Any] = (), timeout: float | None = None) -> Any:
        check_metadata(metadata)
        raise trio.ClosedResourceError("the channel is closed")


# -- the admin surface, and the commands that read


def _admin_connection(data: bytes) -> None:
    """Whatever is said, there is an answer in HTTP/1.1 or HTTP/2 or none, and no bug of ours."""
    with nothing_logged("trxds.admin"):
        said = trio.run(_answer, data)
    assert not said or said.startswith((b"HTTP/1.1 ", b"\x00\x00"))


async def _answer(data: bytes) -> bytes:
    ours, theirs = memory_stream_pair()
    admin, channels = Admin("unix:/run/shop.sock"), {"shop": Closed()}
    async with open_state_stream() as states:
        access = AccessPolicy(admin)
        connections = AdminConnections(access, {}, HttpService(access, states, channels))  # type: ignore[arg-type]  # a stand-in
        await theirs.send_all(data)
        await theirs.send_eof()
        await connections.serve(ours)
    said = bytearray()
    while piece := await theirs.receive_some():
        said += piece
    return bytes(said)


def _page_request(data: bytes) -> None:
    """A client without the token opens no WebSocket, whatever its request says."""
    asked = trio.run(_head, data)
    if isinstance(asked, HttpRequest):
        refusals = [policy.check_web_socket(asked) for policy in (OPEN, LOCKED)]
        assert refusals[1] is not None
        for refusal in (*refusals, OPEN.check_page(asked)):
            assert refusal is None or error_response(refusal).startswith(b"HTTP/1.1 ")


OPEN = AccessPolicy(Admin("127.0.0.1:0"))
LOCKED = AccessPolicy(Admin("127.0.0.1:0", "a-token-that-nobody-has"))


async def _head(data: bytes) -> Any:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(data)
    await theirs.send_eof()
    return await read_head(new_connection(), ours)


class Page:
    """A page that says one thing, and then leaves."""

    def __init__(self, message: str) -> None:
        self._messages = [message]

    async def get_message(self) -> str:
        await trio.lowlevel.checkpoint()
        if not self._messages:
            raise ConnectionClosed(CloseReason(1000, "left"))
        return self._messages.pop()

    async def send_message(self, message: str) -> None:
        json.loads(message)

    async def aclose(self, code: int, reason: str) -> None:
        assert len(reason.encode()) <= 123, "all that fits"


@asynccontextmanager
async def _nothing_to_see() -> AsyncIterator[Any]:
    async def messages() -> AsyncIterator[Any]:
        await trio.sleep_forever()
        yield

    yield messages()


def _page_message(data: bytes) -> None:
    page: Any = Page(_text(data))
    channels: Any = {"shop": Closed()}
    trio.run(Viewer(page, _nothing_to_see, {"explain": partial(explain, channels)}, {}).run)


def _program_answer(data: bytes) -> None:
    """What a command is told by who listens where a program should: an object for each line, or a refusal in words."""
    try:
        trio.run(_messages, data)
    except* UnreachableError as errors:
        assert all(str(error).startswith("unix:/run/shop.sock: ") for error in errors.exceptions)


async def _messages(data: bytes) -> None:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(data)
    await theirs.send_eof()
    async with Told("unix:/run/shop.sock", stream=ours).ask(["channels"]) as messages:
        async for message in messages:
            assert isinstance(message, dict)


class Told(Program):
    """A program that is asked over a stream."""

    def __init__(self, address: str, stream: trio.abc.Stream) -> None:
        super().__init__(address)
        object.__setattr__(self, "stream", stream)

    async def _connect(self) -> trio.abc.Stream:
        stream: trio.abc.Stream = self.stream  # type: ignore[attr-defined]  # who mixes it in has one
        return stream


# -- files


def _resource_file(data: bytes) -> None:
    reading = read_resources(_text(data))
    assert not (reading.resources and reading.problems)
    assert all(problem.line >= 1 and str(problem) for problem in (*reading.problems, *reading.remarks))


def _resource_cache(data: bytes) -> None:
    """As it is, and behind a right checksum: a line that was changed must not be worse than one that is missing."""
    body = data.partition(b"\n")[2]
    for text in (data, f"trxds xDS resource cache 1 {sha256(body).hexdigest()}\n".encode() + body):
        with suppress(DamagedCacheError):
            assert all(each.name is not None and each.current_at >= 0 for each in decode_cache(text))


def _bootstrap_check(data: bytes) -> None:
    report = check(_text(data))
    assert (report.bootstrap is None) is bool(report.count("error"))
    assert all(finding.line >= 1 and finding.text for finding in report.findings)


def _pem(data: bytes) -> None:
    """The same file for all that there may be."""
    with NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        found = FreshContext(CertificateFiles(file.name, file.name, file.name)).read()
        assert isinstance(found, ssl.SSLContext) or file.name in str(found)


def _crl(data: bytes) -> None:
    """Each list is taken or its problem named; what is read of its form fails in one way."""
    crls = read_crls(FileContent(data))
    assert (crls.lists or crls.problems) and str(crls)
    for facts in (crl_facts, certificate_facts):
        with suppress(ValueError):
            facts(data)


def _bundle_map(data: bytes) -> None:
    try:
        found = parse_bundle_map(data, "of a file")
    except ValueError as error:
        assert str(error)
    else:
        assert all(found.domains) and str(found)


# -- a peer's certificate


def _certificate(data: bytes) -> None:
    """Names of a peer, one to a line."""
    pairs = [tuple(line.partition("=")[::2]) for line in data.decode("latin-1").split("\n")]
    allowed = any(kind == "DNS" and name.lower() == "shop.example" for kind, name in pairs)
    for tls in (BY_NAMES, BY_SNI):
        problem = wrong_peer(tls, {"subjectAltName": tuple(pairs)})
        assert problem is None or not allowed
        assert wrong_peer(tls, {}) is not None


BY_NAMES = UpstreamTls(names=(Exact("shop.example"), Prefix("spiffe://mesh/")))
BY_SNI = UpstreamTls(sni="shop.example", sni_is_name=True)


# -- protoc's descriptors


def _plugin(data: bytes) -> None:
    """Whatever comments say, what is written is Python."""
    request = CodeGeneratorRequest(file_to_generate=["shop.proto"], parameter="sync")
    file = request.proto_file.add(name="shop.proto", package="shop")
    file.message_type.add(name="Item")
    service = file.service.add(name="Cart")
    service.method.add(name="Add", input_type=".shop.Item", output_type=".shop.Item")
    for path in ((6, 0), (6, 0, 2, 0)):
        file.source_code_info.location.add(path=path, leading_comments=_text(data))
    written = answer(request).file
    assert len(written) == 2
    for each in written:
        assert "Cart" in each.content
        ast.parse(each.content)


# -- what is asked of all


class nothing_logged(logging.Handler):
    """A context in which this logger says nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.ERROR)
        self._logger = logging.getLogger(name)

    def emit(self, record: logging.LogRecord) -> None:
        self.said = record

    def __enter__(self) -> None:
        self.said: logging.LogRecord | None = None
        self._logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        assert self.said is None, self.said


def _http(target: str, *headers: str) -> bytes:
    return "\r\n".join((f"GET {target} HTTP/1.1", "host: localhost", *headers, "", "")).encode()


def _handshake() -> bytes:
    keys = "sec-websocket-version: 13", "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=="
    offered = f"sec-websocket-protocol: {SUBPROTOCOL}, token.abcdefghijklmnop"
    return _http("/state", "origin: http://localhost", "connection: Upgrade", "upgrade: websocket", *keys, offered)


def _told(*lines: bytes) -> bytes:
    body = b"".join(line + b"\n" for line in lines)
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def _pem_of_both() -> bytes:
    issued = trustme.CA().issue_cert("shop.example")
    return bytes(issued.private_key_and_cert_chain_pem.bytes())


_CA = Authority()
_A_FILE = json.dumps([xds.cluster("cart"), xds.endpoints("cart", xds.locality("10.0.0.1:443"))]).encode()
_A_YAML_FILE = b"""resources:
- &c {'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster, name: cart, type: EDS,
  eds_cluster_config: {eds_config: {ads: {}}}, connect_timeout: 1s}
"""
_A_QUESTION = {"explain": {"id": 1, "channel": "shop", "method": "/shop.Cart/Add", "metadata": [["user", "7"]]}}

TARGETS = [
    Target(
        "admin_connection",
        _admin_connection,
        [
            _http("/state?sections=nodes&events=pick&once=1"),
            _http("/state?sections=channels&metadata=1"),
            _http('/explain?method=/shop.Cart/Add&metadata=[["user","7"],["x-bin","AAE="]]'),
        ],
    ),
    Target("page_request", _page_request, [_handshake(), _http("/")]),
    Target("page_message", _page_message, [json.dumps(_A_QUESTION).encode(), b'{"shown": 1}']),
    Target(
        "program_answer",
        _program_answer,
        [_told(b'{"number":1,"snapshot":{}}'), _told(b"no"), b"HTTP/1.1 401 No\r\n\r\n"],
    ),
    Target("resource_file", _resource_file, [_A_FILE, _A_YAML_FILE]),
    Target("resource_cache", _resource_cache, [encode_cache([CachedResource("a", "t", b"x", "1", "s:1", 1.0, 2.0)])]),
    Target("bootstrap_check", _bootstrap_check, [json.dumps(xds.bootstrap("10.0.0.1:18000")).encode()]),
    Target("pem", _pem, [_pem_of_both()]),
    Target("crl", _crl, [_CA.crl_pem(), _CA.crl().public_bytes(DER), _CA.der]),
    Target("bundle_map", _bundle_map, [bundle_map({"shop.example": bundle(_CA)}), bundle_map({})]),
    Target(
        "certificate",
        _certificate,
        [b"DNS=shop.example\nURI=spiffe://mesh/cart\nIP Address=10.0.0.1", b"DNS=*.example"],
    ),
    Target("plugin", _plugin, [b' Adds an item.\n\n """Quoted\\\n']),
]
