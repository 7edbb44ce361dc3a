"""TLS proves the peer's name and agrees on HTTP/2, and an error names peer and cause."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
import trio
import trio.testing
import trustme
from support.pki import NO_TEXT, Authority
from support.tls_peers import server_context, wants_certificates

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connectivity import Connectivity
from trxds.testing import Call, serve, unary
from trxds.transport.certificates import CertificateFiles, ClientContext, FreshContext, client_context
from trxds.transport.connect import Network, TcpNetwork
from trxds.transport.connection import Connection
from trxds.transport.file_content import FileContent
from trxds.transport.options import WireOptions
from trxds.transport.pool import SubchannelPool
from trxds.transport.request import Request
from trxds.transport.tls import Approve, TlsNetwork, context_source, server_name_of, tls_cause

ADDRESS = "10.0.0.1:443"


async def scheme(request: bytes, call: Call) -> bytes:
    return request


HANDLERS = {"/s/Echo": unary(scheme)}


def trusting(ca: trustme.CA) -> ssl.SSLContext:
    context = client_context(CertificateFiles())
    ca.configure_trust(context)
    return context


def over(
    network: Network, context: ssl.SSLContext, name: str | None = "cart.example", approve: Approve | None = None
) -> TlsNetwork:
    return TlsNetwork(network, context_source(context), name, approve)


async def echo_over(network: Network, address: str, nursery: trio.Nursery) -> bytes | None:
    connection = Connection(await network.connect(address), peer=address)
    nursery.start_soon(connection.run)
    assert await connection.wait_ready()
    stream = connection.open_stream(Request("/s/Echo", "s", one_reply=True))
    assert stream is not None
    stream.send_nowait(b"hello", end=True)
    return await stream.receive_unary()


async def refusal(network: Network, address: str = ADDRESS) -> str:
    with pytest.raises(OSError) as caught:
        await network.connect(address)
    return str(caught.value)


async def test_a_call_over_tls_in_memory(ca, network, nursery, autojump_clock) -> None:
    async with serve(HANDLERS, address=ADDRESS, network=network, tls=server_context(ca, "cart.example")) as server:
        assert await echo_over(over(network, trusting(ca)), ADDRESS, nursery) == b"hello"
        assert server.calls[0].scheme == "https"


async def test_a_call_over_tls_and_tcp(ca, nursery) -> None:
    async with serve(HANDLERS, tls=server_context(ca, "127.0.0.1")) as server:
        network = over(TcpNetwork(), trusting(ca), "127.0.0.1")
        assert await echo_over(network, server.address, nursery) == b"hello"
        assert server.connections[0].peer.startswith("127.0.0.1:")


async def test_a_large_message_over_tls_and_tcp(ca, nursery) -> None:
    async with serve(HANDLERS, tls=server_context(ca, "cart.example")) as server:
        connection = Connection(await over(TcpNetwork(), trusting(ca)).connect(server.address), peer="cart")
        nursery.start_soon(connection.run)
        stream = connection.open_stream(Request("/s/Echo", "s", one_reply=True))
        assert stream is not None
        stream.send_nowait(bytes(3_000_000), end=True)
        assert await stream.receive_unary() == bytes(3_000_000)


async def test_the_dot_at_the_end_of_a_complete_name_is_not_sent_nor_has_to_be_proved(
    ca, network, nursery, autojump_clock
) -> None:
    """RFC 6066 §3; `cart.example.` saves a look-up in the search domains, as in Kubernetes."""
    seen: list[str | None] = []
    context = server_context(ca, "cart.example")
    context.sni_callback = lambda _socket, name, _context: seen.append(name)
    async with serve(HANDLERS, address=ADDRESS, network=network, tls=context):
        peer = over(network, trusting(ca), "cart.example.")
        assert await echo_over(peer, ADDRESS, nursery) == b"hello"
    assert seen == ["cart.example"]


async def test_a_peer_of_another_name_is_refused(ca, network, autojump_clock) -> None:
    async with serve(address=ADDRESS, network=network, tls=server_context(ca, "other.example")):
        assert await refusal(over(network, trusting(ca))) == (
            "TLS with 10.0.0.1:443 as 'cart.example': certificate verify failed: "
            "Hostname mismatch, certificate is not valid for 'cart.example'"
            "; its subjectAltName needs that name, and its common name does not count"
        )


@pytest.mark.parametrize(
    ("days", "problem", "remedy"),
    [
        ((-2, -1), "certificate has expired", "; the peer needs a new one"),
        ((1, 2), "certificate is not yet valid", "; are the clocks of both machines right?"),  # OpenSSL 3.6 says more
    ],
)
async def test_a_certificate_outside_of_its_time_is_refused_with_the_remedy(
    ca, network, autojump_clock, days: tuple[int, int], problem: str, remedy: str
) -> None:
    first, last = (datetime.now(UTC) + timedelta(days=day) for day in days)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("cart.example", not_before=first, not_after=last).configure_cert(context)
    async with serve(address=ADDRESS, network=network, tls=context):
        said = await refusal(over(network, trusting(ca)))
        assert f"certificate verify failed: {problem}" in said
        assert said.endswith(remedy)


async def test_a_peer_of_another_authority_is_refused_with_the_remedy(ca, network, autojump_clock) -> None:
    async with serve(address=ADDRESS, network=network, tls=server_context(trustme.CA(), "cart.example")):
        own = CertificateFiles(FileContent(ca.cert_pem.bytes()))
        for files, remedy in ((own, "the roots have"), (CertificateFiles(), "this system trusts")):
            text = await refusal(TlsNetwork(network, context_source(files), "cart.example"))
            assert text.endswith(f"; no authority that {remedy} has signed it")


@pytest.mark.parametrize("uris", [(), ("spiffe://shop.example/cart",)])
async def test_a_common_name_proves_no_host_name(network, tmp_path, autojump_clock, uris) -> None:
    root = Authority()
    source = context_source(CertificateFiles(FileContent(root.pem)))
    tls = root.issue(*uris, common_name="cart.example").server_context(tmp_path)
    async with serve(address=ADDRESS, network=network, tls=tls):
        text = await refusal(TlsNetwork(network, source, "cart.example"))
    assert text.endswith(
        "is not valid for 'cart.example'; its subjectAltName needs that name, and its common name does not count"
    )


async def test_a_root_may_be_an_authority_that_another_one_signed(network, tmp_path, nursery, autojump_clock) -> None:
    below = Authority("below", Authority("root"))
    source = context_source(CertificateFiles(FileContent(below.pem)))
    tls = below.issue(names=["cart.example"]).server_context(tmp_path)
    async with serve(HANDLERS, address=ADDRESS, network=network, tls=tls):
        assert await echo_over(TlsNetwork(network, source, "cart.example"), ADDRESS, nursery) == b"hello"


async def test_connections_that_begin_together_have_the_files_read_once(monkeypatch) -> None:
    made: list[FreshContext] = []
    read = FreshContext.read

    def counted(context: FreshContext) -> ClientContext | OSError:
        made.append(context)
        return read(context)

    monkeypatch.setattr(FreshContext, "read", counted)
    next_context = context_source(CertificateFiles())
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(next_context)
    assert len(made) == 1


def test_a_peer_may_not_renegotiate() -> None:
    """It could show another certificate after the first one was checked (RFC 9113 §9.2.1)."""
    assert client_context(CertificateFiles()).options & ssl.OP_NO_RENEGOTIATION


async def test_a_peer_that_nobody_trusts_is_refused(ca, network, autojump_clock) -> None:
    async with serve(address=ADDRESS, network=network, tls=server_context(trustme.CA(), "cart.example")):
        text = await refusal(over(network, trusting(ca)))
    assert "TLS with 10.0.0.1:443 as 'cart.example': certificate verify failed: " in text


async def test_a_peer_that_does_not_speak_http2_is_refused(ca, network, autojump_clock) -> None:
    tls = server_context(ca, "cart.example", alpn="http/1.1")
    async with serve(address=ADDRESS, network=network, tls=tls):
        assert (await refusal(over(network, trusting(ca)))).endswith(
            "the peer did not agree on HTTP/2; its ALPN protocols must include h2"
        )


def test_the_alert_of_a_peer_without_our_alpn_protocol_says_what_to_offer() -> None:
    """Python's server sends none, other servers do; Python has no name of its reason, but its line of source."""
    error = trio.BrokenResourceError()
    error.__cause__ = ssl.SSLError(1, "[SSL] tlsv1 alert no application protocol (_ssl.c:1006)")
    assert tls_cause(error) == "the peer did not agree on HTTP/2; its ALPN protocols must include h2"


async def test_a_peer_that_speaks_no_tls_is_refused(ca, network, autojump_clock) -> None:
    async with serve(address=ADDRESS, network=network):
        text = await refusal(over(network, trusting(ca)))
    assert text.startswith("TLS with 10.0.0.1:443 as 'cart.example': ") and "speak TLS" in text


async def test_a_certificate_may_be_refused_by_the_approval_function(ca, network, autojump_clock) -> None:
    async with serve(address=ADDRESS, network=network, tls=server_context(ca, "cart.example")):
        text = await refusal(over(network, trusting(ca), approve=lambda found: f"{found['subjectAltName']}"))
    assert text == "TLS with 10.0.0.1:443 as 'cart.example': (('DNS', 'cart.example'),)"


async def test_a_peer_with_a_name_that_is_no_text_is_refused(network, tmp_path, autojump_clock) -> None:
    root = Authority()
    files = CertificateFiles(FileContent(root.pem))
    async with serve(address=ADDRESS, network=network, tls=root.issue(raw_names=NO_TEXT).server_context(tmp_path)):
        text = await refusal(TlsNetwork(network, context_source(files), "shop", lambda found: None))
    assert text == (
        "TLS with 10.0.0.1:443 as 'shop': a name in the peer's certificate is no UTF-8; the peer needs a new one"
    )


@pytest.mark.parametrize("name", [".example", "", "a\0b", "\u00df" * 60, "a" * 300])
async def test_a_name_that_no_host_can_have_is_an_error_and_leaves_no_connection(
    ca, network, autojump_clock, name
) -> None:
    async with serve(address=ADDRESS, network=network, tls=server_context(ca, "cart.example")) as server:
        text = await refusal(over(network, trusting(ca), name))
        await trio.testing.wait_all_tasks_blocked()
        assert server.connections == []
    assert text.startswith(f"TLS with 10.0.0.1:443: no peer can have the name {name[:100]!r}; correct")


async def test_a_refused_peer_is_left_without_a_connection(ca, network, autojump_clock) -> None:
    async with serve(address=ADDRESS, network=network, tls=server_context(ca, "other.example")) as server:
        await refusal(over(network, trusting(ca)))
        await trio.testing.wait_all_tasks_blocked()
        assert server.connections == []


async def test_a_cancelled_handshake_closes_the_transport(ca, network, autojump_clock) -> None:
    listener = network.listen(ADDRESS)
    with trio.move_on_after(1):
        await over(network, trusting(ca)).connect(ADDRESS)
    theirs = await listener.accept()
    while await theirs.receive_some():
        pass  # the hello, then the end


async def lost_reason(network: Network) -> str:
    """Return why a subchannel to ADDRESS over this network is in TRANSIENT_FAILURE."""
    pool = SubchannelPool(network, WireOptions(), Random(1))
    queue: ConflatingQueue = ConflatingQueue()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run)
        host = pool.for_policies.lease(ADDRESS, queue).subchannel
        host.request_connection()
        while host.state is not Connectivity.TRANSIENT_FAILURE:
            await queue.next()
        nursery.cancel_scope.cancel()
    assert host.error is not None
    return host.error.message


async def test_a_subchannel_tells_why_tls_failed(ca, network, autojump_clock) -> None:
    async with serve(address=ADDRESS, network=network, tls=server_context(ca, "other.example")):
        assert await lost_reason(over(network, trusting(ca))) == (
            "10.0.0.1:443: cannot connect: TLS with 10.0.0.1:443 as 'cart.example': certificate verify failed: "
            "Hostname mismatch, certificate is not valid for 'cart.example'"
            "; its subjectAltName needs that name, and its common name does not count"
        )


async def test_mutual_tls_proves_both_sides(ca, network, nursery, files, autojump_clock) -> None:
    async with serve(HANDLERS, address=ADDRESS, network=network, tls=wants_certificates(ca)):
        assert await echo_over(over(network, client_context(files)), ADDRESS, nursery) == b"hello"


async def test_a_missing_client_certificate_is_a_possible_reason(ca, network, autojump_clock) -> None:
    context = trusting(ca)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with serve(HANDLERS, address=ADDRESS, network=network, tls=wants_certificates(ca)):
        assert (await lost_reason(over(network, context))).endswith(
            "the peer closed the connection during the handshake; does it speak TLS, or want a certificate from us?"
        )


async def test_a_client_certificate_that_is_missed_late_is_a_failed_attempt(ca, network, autojump_clock) -> None:
    async with serve(HANDLERS, address=ADDRESS, network=network, tls=wants_certificates(ca)):
        # In TLS 1.3 the server says so only after the client's handshake is over.
        text = await lost_reason(over(network, trusting(ca)))
    assert text.startswith("10.0.0.1:443: connection ") and text.endswith("does it want a certificate from us?")


async def test_a_client_certificate_that_the_server_refuses_is_a_failed_attempt(
    ca, network, files, autojump_clock
) -> None:
    tls = wants_certificates(ca)
    other = trustme.CA().issue_cert("client.example")
    other.private_key_and_cert_chain_pem.write_to_path(files.certificate)
    async with serve(HANDLERS, address=ADDRESS, network=network, tls=tls):
        text = await lost_reason(over(network, client_context(files)))
    assert text.endswith("before HTTP/2 began; does it accept our certificate?")


async def test_a_server_of_tls_that_is_spoken_to_in_plain_text_is_suspected(ca, network, autojump_clock) -> None:
    async with serve(HANDLERS, address=ADDRESS, network=network, tls=server_context(ca, "cart.example")):
        assert (await lost_reason(network)).endswith(" before HTTP/2 began; does it speak TLS?")


def test_the_zone_of_an_ipv6_address_is_no_part_of_the_name_that_it_has_to_prove() -> None:
    assert server_name_of("[fe80::1%eth0]:443") == "fe80::1"
