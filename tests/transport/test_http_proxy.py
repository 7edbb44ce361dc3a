"""Which hosts have an HTTP CONNECT proxy, and what is said to it (A1)."""

from __future__ import annotations

import base64

import pytest
import trio
import trio.testing

from trxds.testing import MemoryNetwork
from trxds.transport.http_proxy import (
    HttpProxy,
    ProxyNetwork,
    TargetProxyNetwork,
    is_bypassed,
    parse_proxy,
    proxy_finder,
    server_network,
)

PROXY = "proxy.example:3128"


class TestUrl:
    @pytest.mark.parametrize(
        ("url", "address"),
        [
            ("http://proxy.example:3128", PROXY),
            ("proxy.example:3128", PROXY),
            ("http://proxy.example", "proxy.example:80"),
            ("http://[::1]:3128", "[::1]:3128"),
        ],
    )
    def test_a_url_names_the_proxys_host_and_port(self, url, address):
        assert parse_proxy(url, "http_proxy").address == address

    def test_user_and_password_become_basic_authorization(self):
        proxy = parse_proxy("http://ada:p%40ss@proxy.example:3128", "http_proxy")
        assert proxy.authorization == "Basic YWRhOnBAc3M="

    def test_bytes_of_the_environment_that_are_no_utf8_are_the_passwords(self):
        proxy = parse_proxy("http://ada:\udcff@proxy.example:3128", "https_proxy")
        assert base64.b64decode(proxy.authorization.removeprefix("Basic ")) == b"ada:\xff"

    def test_the_authorization_is_not_shown(self):
        assert "YWRh" not in repr(parse_proxy("http://ada:secret@proxy.example:3128", "http_proxy"))

    @pytest.mark.parametrize(
        "url",
        [
            "https://ada:secret@p",
            "socks5://ada:secret@p",
            "http://ada:secret@",
            "http://a:b@c:x",
            "http://ada:secret/x@proxy:3128",
            "http://ada:secret#x@proxy:3128",
            "http://ada:secret\u2100@proxy:3128",
            "secret://proxy",
        ],
    )
    def test_the_error_of_a_bad_url_names_its_source_and_no_password(self, url):
        with pytest.raises(ValueError, match="environment variable https_proxy: ") as caught:
            parse_proxy(url, "environment variable https_proxy")
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(
        "url", ["http://", "http://proxy:x", "http://bücher:3128", "http://p:3128/path", "http://p:3128?q"]
    )
    def test_a_text_that_is_no_url_of_a_proxy_is_called_so(self, url):
        with pytest.raises(ValueError, match=r"http_proxy: is no URL of a proxy; write http://HOST:PORT"):
            parse_proxy(url, "http_proxy")


class TestBypass:
    @pytest.mark.parametrize(
        ("host", "no_proxy"),
        [
            ("cart.example", "cart.example"),
            ("a.cart.example", "cart.example"),
            ("a.cart.example", ".cart.example"),
            ("a.cart.example", "*.cart.example"),
            ("CART.example.", "cart.EXAMPLE"),
            ("cart.example", "cart.example."),
            ("cart.example", "other, cart.example:443"),
            ("anything", "*"),
            ("10.1.2.3", "10.0.0.0/8"),
            ("10.1.2.3", "10.9.9.9/8"),
            ("10.1.2.3", "10.1.2.3"),
            ("10.1.2.3", "10.1.2.3:443"),
            ("2001:db8::7", "2001:db8::/32"),
            ("2001:db8::7", "[2001:db8::7]:443"),
            ("fe80::7%eth0", "[fe80::7]:443"),
            ("localhost", ""),
            ("shop.localhost", ""),
            ("127.8.0.1", ""),
            ("::1", ""),
        ],
    )
    def test_a_host_of_the_list_has_no_proxy(self, host, no_proxy):
        assert is_bypassed(host, 443, no_proxy)

    @pytest.mark.parametrize(
        ("host", "no_proxy"),
        [
            ("cart.example", ""),
            ("mycart.example", "cart.example"),
            ("cart.example", ".cart.example"),
            ("cart.example", "cart.example:8443"),
            ("10.1.2.3", "10.1.2.3:8443"),
            ("11.1.2.3", "10.0.0.0/8"),
            ("cart.example", "10.0.0.0/8"),
            ("cart.example", " , ,"),
        ],
    )
    def test_any_other_host_has_one(self, host, no_proxy):
        assert not is_bypassed(host, 443, no_proxy)


class TestEnvironment:
    @pytest.mark.parametrize("variable", ["grpc_proxy", "https_proxy", "http_proxy", "HTTPS_PROXY"])
    def test_a_variable_names_the_proxy(self, variable):
        find = proxy_finder(None, {variable: f"http://{PROXY}"})
        assert find is not None
        proxy = find("cart.example", 443)
        assert proxy is not None and proxy.address == PROXY

    def test_grpc_proxy_goes_first(self):
        find = proxy_finder(None, {"https_proxy": "http://other", "grpc_proxy": f"http://{PROXY}"})
        assert find is not None
        proxy = find("cart.example", 443)
        assert proxy is not None and proxy.address == PROXY

    @pytest.mark.parametrize("variable", ["no_grpc_proxy", "no_proxy", "NO_PROXY"])
    def test_a_variable_leaves_hosts_out(self, variable):
        find = proxy_finder(None, {"https_proxy": f"http://{PROXY}", variable: "example"})
        assert find is not None
        assert find("cart.example", 443) is None

    def test_an_empty_variable_hides_no_other_one(self):
        find = proxy_finder(None, {"grpc_proxy": "", "https_proxy": PROXY, "no_grpc_proxy": "", "no_proxy": "out"})
        assert find is not None
        assert find("cart.example", 443) is not None and find("out", 443) is None

    def test_http_proxy_in_capitals_is_not_read(self):
        assert proxy_finder(None, {"HTTP_PROXY": f"http://{PROXY}"}) is None

    def test_a_proxy_of_another_kind_is_logged_and_has_no_effect(self, caplog):
        assert proxy_finder(None, {"https_proxy": "socks5h://ada:secret@127.0.0.1:1080"}) is None
        (record,) = caplog.records
        assert "environment variable https_proxy" in record.getMessage() and "secret" not in record.getMessage()

    def test_an_empty_setting_of_a_channel_is_no_proxy(self):
        assert proxy_finder("", {"https_proxy": f"http://{PROXY}"}) is None

    def test_a_setting_of_a_channel_goes_before_the_environment(self):
        find = proxy_finder(f"http://{PROXY}", {"https_proxy": "http://other", "no_proxy": "*"})
        assert find is not None
        proxy = find("cart.example", 443)
        assert proxy is not None and proxy.address == PROXY


# -- the tunnel, over streams in memory, where it is read byte by byte


async def tunnelled(
    nursery: trio.Nursery, answer: bytes, name: str = "cart.example"
) -> tuple[trio.abc.Stream | OSError, bytes]:
    """The stream of a connection through a proxy that answers so, or its error; and what the proxy was sent."""
    network = MemoryNetwork()
    listener = network.listen(PROXY)
    asked = bytearray()

    async def proxy() -> None:
        stream = await listener.accept()
        while not asked.endswith(b"\r\n\r\n"):
            asked.extend(await stream.receive_some())
        await stream.send_all(answer)
        if not answer:
            await stream.aclose()

    nursery.start_soon(proxy)
    find = proxy_finder(f"http://ada:secret@{PROXY}", {})
    assert find is not None
    through = TargetProxyNetwork(network, find)
    (address,) = await through.resolve(name, 443)
    try:
        return await through.connect(address), bytes(asked)
    except OSError as error:
        return error, bytes(asked)


class OneStream:
    """A network with one stream, which is connected already."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def connect(self, address: str) -> trio.abc.Stream:
        return self._stream

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        raise NotImplementedError


async def test_the_proxy_is_asked_for_the_name_and_gets_the_authorization(nursery, autojump_clock):
    _, asked = await tunnelled(nursery, b"HTTP/1.1 200 OK\r\n\r\n")
    assert asked.splitlines() == [
        b"CONNECT cart.example:443 HTTP/1.1",
        b"host: cart.example:443",
        b"proxy-authorization: Basic YWRhOnNlY3JldA==",
        b"",
    ]


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.0 200 Connection established\r\nvia: it\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\n\n",
    ],
)
async def test_what_follows_the_proxys_answer_is_the_hosts(nursery, autojump_clock, head):
    stream, _ = await tunnelled(nursery, head + b"SETTINGS")
    assert isinstance(stream, trio.abc.Stream)
    assert bytes(await stream.receive_some()) == b"SETTINGS"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "with 407 Proxy Authentication Required; put user"),
        (b"HTTP/1.1 503 \r\nretry-after: 1\r\n\r\n", "answers CONNECT cart.example:443 with 503"),
        (b"\x16\x03\x01\x00\n\r\n", "is it an HTTP proxy?"),
        (b"", "it closed the connection; is it an HTTP proxy?"),
        (b"x" * 20_000, "no end within 16384 bytes"),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_is_named_with_its_answer(nursery, autojump_clock, answer, text):
    error, _ = await tunnelled(nursery, answer)
    assert isinstance(error, OSError)
    assert f"proxy {PROXY} " in str(error) and text in str(error)
    assert "secret" not in str(error)


async def test_a_proxy_that_repeats_the_password_does_not_bring_it_into_the_error(nursery, autojump_clock):
    error, _ = await tunnelled(nursery, b"HTTP/1.1 400 Bad: proxy-authorization: Basic YWRhOnNlY3JldA==\r\n\r\n")
    assert str(error) == f"proxy {PROXY} answers CONNECT cart.example:443 with 400"


async def test_a_proxy_that_cannot_be_reached_is_named(autojump_clock):
    find = proxy_finder(f"http://{PROXY}", {})
    assert find is not None
    through = TargetProxyNetwork(MemoryNetwork(), find)
    (address,) = await through.resolve("cart.example", 443)
    with pytest.raises(OSError, match=f"^proxy {PROXY}: Connection refused; check that it runs, and its address$"):
        await through.connect(address)


async def test_a_proxy_that_closes_before_it_is_asked_is_named(nursery, autojump_clock):
    network = MemoryNetwork()
    listener = network.listen(PROXY)

    async def close():
        await (await listener.accept()).aclose()

    nursery.start_soon(close)
    stream = await network.connect(PROXY)
    await trio.testing.wait_all_tasks_blocked()
    with pytest.raises(OSError, match=f"^proxy {PROXY} does not answer CONNECT cart.example:443: .*; is it an HTTP"):
        await ProxyNetwork(OneStream(stream), lambda _: HttpProxy(PROXY)).connect("cart.example:443")


@pytest.mark.parametrize("address", ["unix:/run/xds.sock", "unix-abstract:xds"])
async def test_a_control_plane_at_a_unix_socket_has_no_proxy(address):
    stream, _ = trio.testing.memory_stream_pair()
    network = server_network(OneStream(stream), lambda host, port: HttpProxy(PROXY))
    assert await network.connect(address) is stream


async def test_the_name_of_a_host_behind_a_proxy_is_resolved_at_a_checkpoint():
    find = proxy_finder(f"http://{PROXY}", {})
    assert find is not None
    with trio.testing.assert_checkpoints():
        assert await TargetProxyNetwork(MemoryNetwork(), find).resolve("cart.example", 443) == ("cart.example:443",)


async def test_an_address_that_nobody_resolved_is_reached_directly(autojump_clock):
    find = proxy_finder(f"http://{PROXY}", {})
    assert find is not None
    network = MemoryNetwork()
    network.listen("10.0.0.1:443")
    assert await TargetProxyNetwork(network, find).connect("10.0.0.1:443")


async def test_the_proxy_is_asked_for_the_ascii_form_of_a_name(nursery, autojump_clock):
    _, asked = await tunnelled(nursery, b"HTTP/1.1 200 OK\r\n\r\n", "bücher.example")
    assert asked.startswith(b"CONNECT xn--bcher-kva.example:443 HTTP/1.1\r\nhost: xn--bcher-kva.example:443\r\n")


async def test_a_name_that_no_proxy_can_be_asked_for_is_an_error_of_the_connection(nursery, autojump_clock):
    error, _ = await tunnelled(nursery, b"", "x\x7f.example")
    assert isinstance(error, OSError) and "which is no host name" in str(error)


async def test_an_answer_of_a_proxy_is_shown_without_what_a_terminal_obeys(nursery, autojump_clock):
    error, _ = await tunnelled(nursery, b"HTTP/1.1 403 \xff[31m" + b"x" * 1000 + b"\r\n\r\n")
    assert str(error).isprintable() and len(str(error)) < 250
