"""One address for gRPC's tools, commands and the browser: which protocol a client speaks, and who may speak at all."""

import gc
import ssl
import weakref

import pytest
import trio
import trio.testing
import trustme
from google.protobuf.wrappers_pb2 import Int32Value, StringValue
from support.hostile.peer import INITIAL_WINDOW_SIZE
from support.mesh import Mesh
from support.mesh import ask as call
from support.raw_client import RawClient, headers

import trxds
from trxds.admin import Admin
from trxds.admin.access import AccessPolicy
from trxds.admin.health import SERVICE
from trxds.admin.http import ANSWER_TIMEOUT
from trxds.admin.http_service import HttpService
from trxds.admin.replay_stream import ReplayStream
from trxds.admin.server import MAX_CONNECTIONS, MAX_HEAD_TIME, MAX_PENDING, AdminConnections

TOKEN = "0123456789abcdef"


async def http_get(address, target, *headers):
    """What HTTP/1.1 answers: the whole response."""
    host, _, port = address.rpartition(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        request = "\r\n".join((f"GET {target} HTTP/1.1", f"host: {address}", *headers, "", ""))
        await stream.send_all(request.encode())
        return b"".join([data async for data in stream]).decode()


async def check_health(address, credentials=None, metadata=()):
    """What grpc.health.v1 answers: 1 is SERVING."""
    options = {"credentials": credentials} if credentials else {}
    async with trxds.open_channel(f"ipv4:{address}", **options) as channel:
        check = channel.method(f"{SERVICE}/Check", StringValue, Int32Value)
        return (await check(StringValue(), metadata=metadata, timeout=5)).value


@pytest.fixture
async def address():
    """The admin surface of a channel that has made one call."""
    async with Mesh.run(1) as mesh, mesh.channel() as channel, trxds.admin.serve(channel) as address:
        await call(channel)
        yield address


# -- one port, three kinds of clients


async def test_a_grpc_tool_can_call_the_admin_address(address):
    assert await check_health(address) == 1


async def test_a_command_is_answered_at_the_same_address(address):
    body = (await http_get(address, "/state?once=1&sections=channels")).partition("\r\n\r\n")[2]
    assert '"calls":1' in body


async def test_a_browser_gets_the_page_at_the_same_address(address):
    assert "<title>" in await http_get(address, "/")


async def test_a_channel_opens_all_of_it_by_its_admin_option():
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        await listener.aclose()
        async with Mesh.run(1) as mesh, mesh.channel(admin=f"127.0.0.1:{port}"):
            assert await check_health(f"127.0.0.1:{port}") == 1
            assert "<title>" in await http_get(f"127.0.0.1:{port}", "/")
        nursery.cancel_scope.cancel()


async def test_a_shared_xds_client_needs_no_channel():
    async with (
        Mesh.run(1) as mesh,
        trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network) as client,
        trxds.admin.serve(client) as address,
    ):
        assert await check_health(address) == 1
        assert "<title>" in await http_get(address, "/")


# -- who may ask


async def test_a_grpc_request_needs_the_admin_token():
    async with trxds.admin.serve(address=Admin("127.0.0.1:0", TOKEN)) as address:
        with pytest.raises(trxds.RpcError) as refused:
            await check_health(address)
        assert refused.value.status.code is trxds.StatusCode.UNAUTHENTICATED
        assert await check_health(address, metadata=[("authorization", f"Bearer {TOKEN}")]) == 1


async def test_a_wrong_token_is_not_echoed():
    async with trxds.admin.serve(address=Admin("127.0.0.1:0", TOKEN)) as address:
        with pytest.raises(trxds.RpcError) as refused:
            await check_health(address, metadata=[("authorization", "Bearer fedcba9876543210")])
    assert "fedcba9876543210" not in str(refused.value)
    assert TOKEN not in str(refused.value)


def test_an_admin_address_beyond_loopback_needs_a_token_or_client_certificates():
    any_client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    for admin in ({}, {"tls": any_client}):
        with pytest.raises(ValueError, match="can be reached from other machines"):
            Admin("0.0.0.0:9901", **admin)
    any_client.verify_mode = ssl.CERT_REQUIRED
    assert Admin("0.0.0.0:9901", tls=any_client).has_client_certificates


class OperatorsTls:
    """An authority, a server's context that wants its certificates, and contexts of clients."""

    def __init__(self):
        self.authority = trustme.CA()
        self.server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.server.verify_mode = ssl.CERT_REQUIRED
        self.authority.issue_cert("127.0.0.1").configure_cert(self.server)
        self.authority.configure_trust(self.server)

    def stranger(self):
        client = ssl.create_default_context()
        self.authority.configure_trust(client)
        return client

    def operator(self):
        client = self.stranger()
        self.authority.issue_cert("operator@shop.example").configure_cert(client)
        return client


async def test_a_client_without_a_certificate_is_rejected_if_one_is_required():
    tls = OperatorsTls()
    async with trxds.admin.serve(address=Admin("127.0.0.1:0", tls=tls.server)) as address:
        with pytest.raises(trxds.RpcError):
            await check_health(address, trxds.tls(tls.stranger()))
        assert await check_health(address, trxds.tls(tls.operator())) == 1


async def test_a_browser_that_offers_both_protocols_gets_http_1_by_tls():
    tls = OperatorsTls()
    browser = tls.operator()
    browser.set_alpn_protocols(["h2", "http/1.1"])
    async with trxds.admin.serve(address=Admin("127.0.0.1:0", tls=tls.server)) as address:
        host, _, port = address.rpartition(":")
        async with await trio.open_ssl_over_tcp_stream(host, int(port), ssl_context=browser) as stream:
            await stream.do_handshake()
            assert stream.selected_alpn_protocol() == "http/1.1"


# -- bounds that hold before the protocol is known


def connections(token=""):
    access = AccessPolicy(Admin("127.0.0.1:0", token))
    return AdminConnections(access, {}, HttpService(access, None, {}))


@pytest.mark.parametrize("begun", [b"", b"P", b"PRI * HTTP/2.0\r\n", b"GET /state HTTP/1.1\r\n"])
async def test_a_client_that_stops_in_its_handshake_is_disconnected(autojump_clock, begun):
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connections().serve, theirs)
        await ours.send_all(begun)
        started = trio.current_time()
        assert b"".join([data async for data in ours]) == b""
    assert trio.current_time() - started == pytest.approx(MAX_HEAD_TIME)


@pytest.mark.parametrize("begun", [b"", b"PRI *"])
async def test_a_client_that_leaves_before_its_protocol_is_known_costs_no_more_time(begun):
    ours, theirs = trio.testing.memory_stream_pair()
    await ours.send_all(begun)
    await ours.aclose()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connections().serve, theirs)
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        assert not nursery.child_tasks
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_client_that_leaves_or_stays_silent_is_no_error_in_the_log(autojump_clock, leaves, caplog):
    ours, theirs = trio.testing.memory_stream_pair()
    if leaves:
        await ours.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await ours.aclose()
    await connections().serve(theirs)
    assert caplog.records == []


async def test_connections_are_limited_and_one_more_gets_an_error(autojump_clock):
    served = connections()
    async with trio.open_nursery() as nursery:
        for _ in range(MAX_CONNECTIONS):
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(served.serve, theirs)
            client = RawClient(ours)
            await client.greet()
            await client.send(headers(1, end=True))
            await client.answer(1)
        ours, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(served.serve, theirs)
        assert b"503" in b"".join([data async for data in ours])
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("begun", [b"", b"P", b"GET /state HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"])
async def test_connections_that_have_not_shown_the_token_keep_no_operator_out(autojump_clock, begun):
    served = connections(TOKEN)
    async with trio.open_nursery() as nursery:
        for _ in range(MAX_CONNECTIONS):
            ours, theirs = trio.testing.lockstep_stream_pair()  # which sends nothing that is not read
            nursery.start_soon(served.serve, theirs)
            if begun:
                await ours.send_all(begun)
            await trio.testing.wait_all_tasks_blocked()
        operator, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(served.serve, theirs)
        await operator.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await operator.receive_some()).startswith(b"HTTP/1.1 200")
        nursery.cancel_scope.cancel()


async def test_connections_that_have_ended_are_not_counted_beside_one_that_has_not_shown_the_token(autojump_clock):
    served = connections(TOKEN)
    async with trio.open_nursery() as nursery:

        async def get(client):
            await client.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return b"".join([data async for data in client])

        clients = []
        for _ in range(MAX_PENDING + 2):
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(served.serve, theirs)
            await trio.testing.wait_all_tasks_blocked()
            clients.append(ours)
            if len(clients) > 1:  # the first one is slow
                assert (await get(ours)).startswith(b"HTTP/1.1 200")
        assert (await get(clients[0])).startswith(b"HTTP/1.1 200")


async def test_what_a_grpc_client_sends_is_not_kept(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connections().serve, theirs)
        client = RawClient(ours)
        await client.greet()
        await client.send(headers(1, end=True))
        await client.answer(1)
        [stream] = [each for each in gc.get_objects() if isinstance(each, ReplayStream) and each._stream is theirs]
        assert stream._seen == b""
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "token", [f"authorization: Bearer {TOKEN}", f"sec-websocket-protocol: trxds.admin, token.{TOKEN}"]
)
async def test_an_http_1_connection_with_the_token_is_not_closed_for_others(autojump_clock, token):
    served = connections(TOKEN)
    async with trio.open_nursery() as nursery:
        operator, theirs = trio.testing.lockstep_stream_pair()
        nursery.start_soon(served.serve, theirs)
        await operator.send_all(f"GET / HTTP/1.1\r\nHost: localhost\r\n{token}\r\n\r\n".encode())
        for _ in range(MAX_CONNECTIONS):
            nursery.start_soon(served.serve, trio.testing.memory_stream_pair()[1])
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1 + MAX_PENDING
        nursery.cancel_scope.cancel()


async def test_a_call_that_has_ended_is_kept_no_longer():
    calls = []

    async def answer(call):
        calls.append(weakref.ref(call))

    access = AccessPolicy(Admin("127.0.0.1:0"))
    served = AdminConnections(access, {"/s/M": answer}, HttpService(access, None, {}))
    async with trio.open_nursery() as nursery:
        ours, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(served.serve, theirs)
        client = RawClient(ours)
        await client.greet()
        await client.send(headers(1, end=True))
        await client.answer(1)
        await ours.aclose()
    gc.collect()
    assert [call() for call in calls] == [None]


NO_WINDOW = INITIAL_WINDOW_SIZE.to_bytes(2) + bytes(4)
WITHOUT_TOKEN = {
    "nothing": b"",
    "a call of an unknown method": headers(1, end=True),
    "a request that is not gRPC's": headers(1, end=True, content_type="text/html"),
}


@pytest.mark.parametrize("request_", WITHOUT_TOKEN.values(), ids=WITHOUT_TOKEN)
async def test_grpc_connections_without_the_token_keep_no_operator_out(autojump_clock, request_):
    served = connections(TOKEN)
    async with trio.open_nursery() as nursery:

        async def connect():
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(served.serve, theirs)
            return ours

        for _ in range(MAX_CONNECTIONS):
            client = RawClient(await connect())
            await client.greet(NO_WINDOW)
            await client.send(request_)
            await trio.sleep(2)  # a connection that is closed lingers for a second
        operator = await connect()
        await operator.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await operator.receive_some()).startswith(b"HTTP/1.1 200")
        nursery.cancel_scope.cancel()


async def test_a_grpc_connection_with_the_token_is_not_closed_for_others(autojump_clock):
    served = connections(TOKEN)
    async with trio.open_nursery() as nursery:
        clients = []
        for _ in range(MAX_CONNECTIONS):
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(served.serve, theirs)
            clients.append(RawClient(ours))
            await clients[-1].greet()
            await clients[-1].send(headers(1, end=True, authorization=f"Bearer {TOKEN}"))
        await trio.sleep(2)
        for client in clients:
            await client.send(headers(3, end=True))
            assert (await client.answer(3))["grpc-status"] == "12"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("target", ["/", "/nothing"])
async def test_a_client_that_does_not_read_its_answer_is_disconnected(autojump_clock, target):
    ours, theirs = trio.testing.lockstep_stream_pair()
    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connections(TOKEN).serve, theirs)
        await ours.send_all(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert trio.current_time() - started == pytest.approx(ANSWER_TIMEOUT)


async def test_the_preface_may_come_byte_by_byte():
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connections().serve, theirs)
        for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)):
            await ours.send_all(bytes([byte]))
        assert (await ours.receive_some())[3] == 4  # the server's SETTINGS
        nursery.cancel_scope.cancel()
