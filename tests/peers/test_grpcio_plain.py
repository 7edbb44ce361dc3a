"""Channels without a control plane to real grpcio servers: each kind of target, its authority, TLS and mutual TLS."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio
from support.certificates import Files
from support.grpcio import grpcio_server
from support.ports import has_ipv6, needs_ipv6

import trxds
from trxds import RpcError, StatusCode

SERVER = Path(__file__).with_name("grpcio_addresses.py")
NAME = "cart.example"
ROUND_ROBIN = {"loadBalancingConfig": [{"round_robin": {}}]}


class Peer:
    """One process that listens in five ways, or in four where there is no IPv6."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "cart"
        self.abstract = f"trxds-{folder.name}-{id(self)}"
        asked = ["127.0.0.1:0", "127.0.0.1:0", f"unix:{self.path}", f"unix-abstract:{self.abstract}"]
        asked += ["[::1]:0"] * has_ipv6()
        command = [sys.executable, str(SERVER), *asked]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.first, self.second, _, _, *v6 = (self.process.stdout.readline().strip() for _ in asked)
        self.v6 = v6[0] if v6 else ""

    @property
    def port(self) -> str:
        return self.first.rpartition(":")[2]

    def targets(self) -> dict[str, tuple[str, str, str]]:
        """Target, authority, and the address at which the server is reached, by what they are."""
        port6 = self.v6.rpartition(":")[2]
        return {
            "no scheme": (f"localhost:{self.port}", f"localhost:{self.port}", self.first),
            "dns": (f"dns:///localhost:{self.port}", f"localhost:{self.port}", self.first),
            "dns of an address": (f"dns:{self.first}", self.first, self.first),
            "ipv4": (f"ipv4:{self.first}", self.first, self.first),
            "two of ipv4": (f"ipv4:{self.first},{self.second}", self.first, self.first),
            "ipv6": (f"ipv6:{self.v6}", self.v6, self.v6),
            "ipv6 with a zone": (f"ipv6:[::1%25lo]:{port6}", f"[::1%25lo]:{port6}", self.v6),
            "unix": (f"unix:{self.path}", "localhost", f"unix:{self.path}"),
            "unix as a URI": (f"unix://{self.path}", "localhost", f"unix:{self.path}"),
            "unix-abstract": (f"unix-abstract:{self.abstract}", "localhost", f"unix-abstract:{self.abstract}"),
        }


KINDS = (
    "no scheme",
    "dns",
    "dns of an address",
    "ipv4",
    "two of ipv4",
    pytest.param("ipv6", marks=needs_ipv6),
    pytest.param("ipv6 with a zone", marks=needs_ipv6),
    "unix",
    "unix as a URI",
    "unix-abstract",
)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory):
    peer = Peer(tmp_path_factory.mktemp("plain"))
    yield peer
    assert peer.process.stdin is not None and peer.process.stdout is not None
    peer.process.stdin.close()
    peer.process.wait(60)
    peer.process.stdout.close()


async def where(channel: trxds.MethodFactory, what: str = "address") -> str:
    return (await channel.method(f"/peer.Where/{what}")(b"", timeout=60)).decode()


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_target_reaches_its_server_and_says_its_authority(peer: Peer, kind: str) -> None:
    target, authority, address = peer.targets()[kind]
    async with trxds.open_channel(target) as channel:
        assert (await where(channel, "authority"), await where(channel)) == (authority, address)


async def test_a_relative_path_is_one_of_the_working_directory(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(peer.path.parent)
    async with trxds.open_channel("unix:cart") as channel:
        assert await where(channel) == f"unix:{peer.path}"


async def test_an_authority_of_ones_own_takes_the_place_of_the_targets(peer: Peer) -> None:
    async with trxds.open_channel(f"ipv4:{peer.first}", authority="cart.example:8443") as channel:
        assert await where(channel, "authority") == "cart.example:8443"


async def test_the_second_address_serves_where_nobody_listens_at_the_first(peer: Peer) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{nobody.getsockname()[1]}"
        async with trxds.open_channel(f"ipv4:{dead},{peer.second}") as channel:
            assert await where(channel) == peer.second


async def test_round_robin_of_a_service_config_reaches_both_addresses(peer: Peer) -> None:
    target = f"ipv4:{peer.first},{peer.second}"
    async with trxds.open_channel(target, service_config=ROUND_ROBIN) as channel:
        with trio.fail_after(60):
            while Counter([await where(channel) for _ in range(4)]) != {peer.first: 2, peer.second: 2}:
                pass  # the second one may not be connected yet


async def test_a_timeout_of_a_service_config_reaches_the_server(peer: Peer) -> None:
    config = {"methodConfig": [{"name": [{"service": "peer.Where", "method": "late"}], "timeout": "0.2s"}]}
    async with trxds.open_channel(f"ipv4:{peer.first}", service_config=config) as channel:
        with pytest.raises(RpcError) as failed:
            await channel.method("/peer.Where/late")(b"")
        assert failed.value.status.code is StatusCode.DEADLINE_EXCEEDED


async def test_an_interface_that_is_not_there_is_named(peer: Peer) -> None:
    async with trxds.open_channel("ipv6:[fe80::1%25nowhere]:80") as channel:
        with pytest.raises(RpcError) as failed:
            await where(channel)
        problem = "[fe80::1%nowhere]:80: cannot connect: this machine has no network interface 'nowhere'"
        assert problem in failed.value.status.message


# -- sessions


AFFINITY = trxds.CookieAffinity("cart", ttl=60)


async def all_hosts(peer: Peer, channel: trxds.Channel) -> None:
    """Wait until calls without a session reach both addresses."""
    with trio.fail_after(60):
        while {await where(channel) for _ in range(4)} != {peer.first, peer.second}:
            pass


async def test_a_session_stays_on_one_of_two_hosts(peer: Peer) -> None:
    target = f"ipv4:{peer.first},{peer.second}"
    async with trxds.open_channel(target, affinity=AFFINITY, service_config=ROUND_ROBIN) as channel:
        await all_hosts(peer, channel)
        async with channel.session(require=True) as session, channel.session(require=True) as other:
            hosts = [Counter([await where(each) for _ in range(20)]) for each in (session, other)]
            # Round robin gives the two sessions' first calls to the two hosts.
            assert hosts == [{session.host: 20}, {other.host: 20}]
            assert {session.host, other.host} == {peer.first, peer.second}


async def test_a_session_survives_its_connections_end_and_an_idle_channel(peer: Peer) -> None:
    target = f"ipv4:{peer.first},{peer.second}"
    async with (
        trxds.open_channel(target, affinity=AFFINITY, service_config=ROUND_ROBIN, idle_timeout=0.2) as channel,
        channel.session() as session,
    ):
        await all_hosts(peer, channel)
        host = await where(session)
        for _ in range(3):
            with trio.fail_after(60):
                state = channel.state
                while state is not trxds.Connectivity.IDLE:
                    state = await channel.wait_for_state_change(state)
            assert await where(session) == host


@pytest.mark.parametrize("kind", ["unix", "unix-abstract"])
async def test_a_session_names_its_socket(peer: Peer, kind: str) -> None:
    target, _, address = peer.targets()[kind]
    async with (
        trxds.open_channel(target, affinity=AFFINITY) as channel,
        channel.session(require=True) as session,
    ):
        assert {await where(session) for _ in range(3)} == {address}
        assert session.host == address


# -- TLS


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, NAME)


def roots(files: Files, **more: str):
    return trxds.tls(roots=files.path("roots"), **more)


async def reversed_by(target: str, credentials, **options: str) -> bytes:
    async with trxds.open_channel(target, credentials=credentials, **options) as channel:
        return await channel.method("/peer.Echo/unary")(b"abc", timeout=60)


async def test_tls_proves_the_server_name_or_else_the_authority(files: Files) -> None:
    async with grpcio_server(*files.paths("server-cert", "server-key")) as address:
        assert await reversed_by(f"ipv4:{address}", roots(files, server_name=NAME)) == b"cba"
        assert await reversed_by(f"ipv4:{address}", roots(files), authority=NAME) == b"cba"


async def test_tls_refuses_a_server_that_proves_another_name(files: Files) -> None:
    async with grpcio_server(*files.paths("server-cert", "server-key")) as address:
        with pytest.raises(RpcError) as failed:
            await reversed_by(f"ipv4:{address}", roots(files))
    assert failed.value.status.code is StatusCode.UNAVAILABLE
    assert "as '127.0.0.1': certificate verify failed: IP address mismatch" in failed.value.status.message


async def test_tls_refuses_a_server_of_an_authority_that_is_not_trusted(files: Files) -> None:
    async with grpcio_server(*files.paths("server-cert", "server-key")) as address:
        with pytest.raises(RpcError) as failed:
            await reversed_by(f"ipv4:{address}", trxds.tls(server_name=NAME))
    assert "certificate verify failed" in failed.value.status.message


async def test_mutual_tls_shows_the_clients_certificate(files: Files) -> None:
    both = {"certificate": files.path("client-cert"), "private_key": files.path("client-key")}
    async with grpcio_server(*files.paths("server-cert", "server-key", "roots")) as address:
        assert await reversed_by(f"ipv4:{address}", roots(files, server_name=NAME, **both)) == b"cba"
        with pytest.raises(RpcError) as failed:
            await reversed_by(f"ipv4:{address}", roots(files, server_name=NAME))
    assert "does it want a certificate from us?" in failed.value.status.message


async def test_xds_credentials_without_a_control_plane_are_their_fallback(files: Files) -> None:
    async with grpcio_server(*files.paths("server-cert", "server-key")) as address:
        credentials = trxds.xds_credentials(roots(files, server_name=NAME))
        assert await reversed_by(f"ipv4:{address}", credentials) == b"cba"
