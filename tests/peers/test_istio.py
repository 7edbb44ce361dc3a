"""Istio's control plane and its agent, with the resources that docs/how-to/istio.md shows; hosts and clients are ours.

ServiceEntries stand in for Services, for there is no Kubernetes. `make peer-istio` builds the program and runs this.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
from support import guides
from support.istio import Istio, Resource, istio, program, service_entry
from support.spiffe import Certificates

import trxds
from trxds.testing import Call, serve
from trxds.xds.bootstrap import DELTA

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("istio_program")]

PATIENCE = 60  # seconds for a whole test, most of which take two
TARGET = "xds:///cart.shop.svc.cluster.local:50051"
ADD = "/shop.Cart/Add"
OVERLAP = "registered overlapping stream"  # what the agent logs when a second one ends the first
DIRECT = json.loads(guides.blocks("istio", "json")[0])
_DEPLOYMENT, SPLIT, _HELM, SUBSET, SERVICE, HASH, MUTUAL_TLS = guides.documents("istio")
(VALUES,) = _HELM
FILTER_ON = VALUES["pilot"]["env"]
STICKY = SERVICE[0]
PLAIN = deepcopy(STICKY)
del PLAIN["metadata"]["labels"]


@pytest.fixture(scope="session")
def istio_program() -> None:
    program()


class Hosts:
    """Servers on loopback that answer with their own address; those in `failing` answer UNAVAILABLE."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.failing: set[str] = set()

    async def add(self, stack: AsyncExitStack, **more: Any) -> None:
        server = await stack.enter_async_context(serve(**more))

        async def answer(call: Call) -> None:
            if server.address in self.failing:
                call.abort(trxds.StatusCode.UNAVAILABLE, "failing")
            await call.send(server.address.encode())

        server.fallback = answer
        self.addresses.append(server.address)


@asynccontextmanager
async def hosts(count: int = 3) -> AsyncIterator[Hosts]:
    found = Hosts()
    with trio.fail_after(PATIENCE):
        async with AsyncExitStack() as stack:
            for _ in range(count):
                await found.add(stack)
            yield found


def direct(peer: Istio, *features: str) -> dict[str, Any]:
    """The guide's bootstrap without the agent, with this control plane's address."""
    bootstrap = deepcopy(DIRECT)
    bootstrap["xds_servers"][0]["server_uri"] = peer.address
    bootstrap["xds_servers"][0]["server_features"] += features
    return bootstrap


def through_agent(peer: Istio, *features: str) -> dict[str, Any]:
    bootstrap = json.loads(Path(peer.agent_bootstrap).read_text("utf-8"))
    bootstrap["xds_servers"][0]["server_features"] += features
    return bootstrap


async def ask(caller: trxds.Channel | trxds.Session, **more: Any) -> str:
    reply: bytes = await caller.method(ADD)(b"", **{"timeout": 10, "wait_for_ready": True} | more)
    return reply.decode()


async def spread(caller: trxds.Channel | trxds.Session, calls: int, **more: Any) -> Counter[str]:
    return Counter([await ask(caller, **more) for _ in range(calls)])


@dataclass
class Mesh:
    hosts: Hosts
    istio: Istio
    channel: trxds.Channel

    @property
    def addresses(self) -> list[str]:
        return self.hosts.addresses


@asynccontextmanager
async def mesh(
    folder: Path,
    *resources: Resource,
    count: int = 3,
    service: Resource = PLAIN,
    target: str = TARGET,
    bootstrap: Callable[[Istio], dict[str, Any]] = through_agent,
    **environ: str,
) -> AsyncIterator[Mesh]:
    """So many hosts of that Service, Istio with these resources, and a channel."""
    async with (
        hosts(count) as found,
        istio(folder, *resources, service_entry(service, *found.addresses), **environ) as peer,
        trxds.open_channel(target, bootstrap=bootstrap(peer)) as channel,
    ):
        yield Mesh(found, peer, channel)


# -- the ways to it


@pytest.mark.parametrize("bootstrap", [through_agent, direct])
@pytest.mark.parametrize("features", [(), (DELTA,)], ids=["sotw", "delta"])
async def test_calls_reach_every_host(
    tmp_path: Path, bootstrap: Callable[..., dict[str, Any]], features: tuple[str, ...]
) -> None:
    async with mesh(tmp_path, bootstrap=lambda peer: bootstrap(peer, *features)) as shop:
        while set(await spread(shop.channel, 6)) != set(shop.addresses):
            pass


@pytest.mark.parametrize("name", ["cart:50051", "cart.shop:50051", "cart.shop.svc:50051"])
async def test_a_short_name_with_a_port_is_found(tmp_path: Path, name: str) -> None:
    async with mesh(tmp_path, count=1, target=f"xds:///{name}") as shop:
        assert [await ask(shop.channel)] == shop.addresses


async def test_a_name_without_a_port_does_not_exist(tmp_path: Path) -> None:
    async with mesh(tmp_path, count=1, target=TARGET.removesuffix(":50051")) as shop:
        with pytest.raises(trxds.RpcError, match="DOES_NOT_EXIST"):
            await shop.channel.method(ADD)(b"")


async def test_two_streams_take_the_agent_from_each_other(tmp_path: Path) -> None:
    async with mesh(tmp_path, count=1) as shop, trxds.open_channel(TARGET, bootstrap=shop.istio.agent_bootstrap):
        while shop.istio.log.count(OVERLAP) < 2:  # noqa: ASYNC110
            await trio.sleep(0.1)


async def test_channels_with_one_xds_client_share_the_agent(tmp_path: Path) -> None:
    async with (
        hosts(1) as found,
        istio(tmp_path, service_entry(PLAIN, *found.addresses)) as peer,
        trxds.open_xds_client(bootstrap=peer.agent_bootstrap) as xds,
        trxds.open_channel(TARGET, xds=xds) as one,
        trxds.open_channel("xds:///cart:50051", xds=xds) as other,
    ):
        for _ in range(2):
            assert [await ask(one), await ask(other)] == 2 * found.addresses
            await trio.sleep(3)  # by then two streams would have met
        assert OVERLAP not in peer.log


async def test_istiod_itself_serves_several_clients_with_one_bootstrap(tmp_path: Path) -> None:
    async with (
        mesh(tmp_path, count=2, bootstrap=direct) as shop,
        trxds.open_channel(TARGET, bootstrap=direct(shop.istio)) as second,
    ):
        for channel in (shop.channel, second):
            while set(await spread(channel, 4)) != set(shop.addresses):
                pass
        shop.istio.put(service_entry(PLAIN, shop.addresses[1]))
        for channel in (shop.channel, second):
            while shop.addresses[0] in await spread(channel, 4):
                pass


async def test_calls_go_on_while_istiod_is_away_and_follow_it_when_it_is_back(tmp_path: Path) -> None:
    async with hosts(2) as found:
        one, other = found.addresses
        async with serve() as placeholder:
            address = placeholder.address  # which is free from here on
        bootstrap = deepcopy(DIRECT)
        bootstrap["xds_servers"][0]["server_uri"] = address
        async with trxds.open_channel(TARGET, bootstrap=bootstrap) as channel:
            async with istio(tmp_path, service_entry(PLAIN, one), listen=address):
                assert await ask(channel) == one
            assert await ask(channel) == one
            async with istio(tmp_path, service_entry(PLAIN, other), listen=address):
                while await ask(channel) != other:
                    pass


# -- routes


async def test_traffic_is_split_by_the_weights_of_a_virtual_service(tmp_path: Path) -> None:
    async with mesh(tmp_path, *SPLIT, count=2) as shop:
        v1, v2 = shop.addresses
        shares = await spread(shop.channel, 400)
        assert set(shares) == {v1, v2}
        assert 0.6 < shares[v1] / 400 < 0.9  # 0.75, and almost seven standard deviations


async def test_a_header_chooses_the_subset(tmp_path: Path) -> None:
    async with mesh(tmp_path, *SPLIT, count=2) as shop:
        assert set(await spread(shop.channel, 20, metadata=[("user", "test")])) == {shop.addresses[1]}


async def test_a_virtual_service_sets_timeout_and_retries(tmp_path: Path) -> None:
    async with mesh(tmp_path, *SPLIT) as shop:
        await ask(shop.channel)
        assert "time: 2 s (the route's max_stream_duration" in str(await shop.channel.explain(ADD))
        bad_v1, v2, good_v1 = shop.addresses
        shop.hosts.failing = {bad_v1, v2}
        answers = Counter[str]()
        for _ in range(60):
            try:
                answers[await ask(shop.channel)] += 1
            except trxds.RpcError as error:
                assert error.status.message == "failing"
                answers["failed"] += 1
        # A call of v1 is served by its second try at the latest, for its hosts take turns; a call of v2 never.
        assert set(answers) == {good_v1, "failed"}
        assert answers["failed"] < 40


async def test_a_fault_of_a_virtual_service_is_injected(tmp_path: Path) -> None:
    rule, service = deepcopy(SPLIT)
    (by_header, _) = service["spec"]["http"]
    by_header["fault"] = {"abort": {"grpcStatus": "DATA_LOSS", "percentage": {"value": 100}}}
    async with mesh(tmp_path, rule, service, count=2) as shop:
        with pytest.raises(trxds.RpcError, match="DATA_LOSS: Fault injected"):
            await ask(shop.channel, metadata=[("user", "test")])


async def test_a_consistent_hash_keeps_the_calls_of_a_user_on_one_host(tmp_path: Path) -> None:
    async with mesh(tmp_path, *HASH) as shop:
        homes = [set(await spread(shop.channel, 4, metadata=[("user", str(user))])) for user in range(20)]
        assert {len(home) for home in homes} == {1}
        assert len(set[str]().union(*homes)) > 1


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        ({"loadBalancer": {"simple": "LEAST_REQUEST"}}, "least_request sees"),
        ({"loadBalancer": {"simple": "RANDOM"}}, "round_robin sees"),
        ({"connectionPool": {"http": {"http2MaxRequests": 7}}}, "0 of 7 RPCs in flight"),
        ({"outlierDetection": {"consecutive5xxErrors": 1}}, "outlier_detection sees no rules"),
    ],
)
async def test_a_traffic_policy_has_the_effect_that_the_guide_says(
    tmp_path: Path, policy: dict[str, Any], shown: str
) -> None:
    rule = {**HASH[0], "spec": {**HASH[0]["spec"], "trafficPolicy": policy}}
    async with mesh(tmp_path, rule, count=2) as shop:
        await ask(shop.channel)
        assert shown in str(await shop.channel.explain(ADD))


# -- sessions


async def test_a_session_stays_on_one_host_of_a_subset(tmp_path: Path) -> None:
    async with mesh(tmp_path, *SUBSET, service=STICKY, **FILTER_ON) as shop:
        homes = []
        for _ in range(3):
            async with shop.channel.session(require=True) as session:
                homes.append(await spread(session, 6))
        assert {len(home) for home in homes} == {1}
        assert len(set[str]().union(*homes)) == 3


async def test_a_session_stays_on_one_host_of_a_traffic_split(tmp_path: Path) -> None:
    async with mesh(tmp_path, *SPLIT, service=STICKY, **FILTER_ON) as shop:
        for _ in range(4):
            async with shop.channel.session(require=True) as session:
                assert len(await spread(session, 8)) == 1


async def test_a_session_by_a_header_stays_on_one_host(tmp_path: Path) -> None:
    by_header = deepcopy(STICKY)
    by_header["metadata"]["labels"] = {"istio.io/persistent-session-header": "x-session"}
    async with (
        mesh(tmp_path, *SUBSET, service=by_header, **FILTER_ON) as shop,
        shop.channel.session(require=True) as session,
    ):
        assert len(await spread(session, 6)) == 1


async def test_without_the_environment_variable_a_session_is_not_sticky(tmp_path: Path) -> None:
    async with mesh(tmp_path, *SUBSET, service=STICKY) as shop, shop.channel.session(require=True) as session:
        await ask(shop.channel)
        with pytest.raises(trxds.RpcError, match="the route has no stateful session filter"):
            await ask(session)


async def test_a_draining_host_gets_no_new_sessions_and_its_own_move(tmp_path: Path) -> None:
    async with mesh(tmp_path, *SUBSET, service=STICKY, **FILTER_ON) as shop:
        async with shop.channel.session(require=True) as session:
            home = await ask(session)
            shop.istio.put(*SUBSET, service_entry(STICKY, *shop.addresses, draining=[home]))
            await session.wait_draining()
            while await ask(session) == home:
                pass  # until what the control plane declared is in force
            assert len(await spread(session, 6)) == 1
        for _ in range(6):
            async with shop.channel.session(require=True) as session:
                assert await ask(session) != home


@pytest.mark.parametrize("environ", [FILTER_ON, {}], ids=["filter-on", "filter-off"])
async def test_istiod_ends_when_a_client_asks_for_a_sticky_cluster_without_a_subset(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """The guide warns of it. If this fails, Istio is repaired: the guide says so, and its rule about subsets goes."""
    async with mesh(tmp_path, service=STICKY, count=1, bootstrap=direct, **environ) as shop:
        await shop.istio.process.wait()
        assert "invalid memory address or nil pointer dereference" in shop.istio.log
        assert "grpcgen.(*clusterBuilder).build" in shop.istio.log


# -- TLS


async def test_a_host_is_reached_by_mutual_tls_if_it_has_the_name_of_the_service_account(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    account = "spiffe://cluster.local/ns/shop/sa/"
    async with hosts(0) as found, AsyncExitStack() as stack:
        for name in ("cart", "other"):
            await found.add(stack, tls=certificates.server_context(account + name))
        entry = service_entry(PLAIN, *found.addresses, serviceAccount="cart")
        peer = await stack.enter_async_context(istio(tmp_path, *MUTUAL_TLS, entry))
        certificates.write(account + "web", tmp_path / "agent")
        credentials = trxds.xds_credentials(trxds.insecure())
        async with trxds.open_channel(TARGET, bootstrap=peer.agent_bootstrap, credentials=credentials) as channel:
            assert set(await spread(channel, 6)) == {found.addresses[0]}
        async with trxds.open_channel(TARGET, bootstrap=peer.agent_bootstrap) as channel:
            with pytest.raises(trxds.RpcError, match="does it speak TLS"):
                await channel.method(ADD)(b"")


async def test_a_cluster_with_mutual_tls_is_refused_without_the_agents_certificates(tmp_path: Path) -> None:
    async with mesh(tmp_path, *MUTUAL_TLS, count=1, bootstrap=direct) as shop:
        with pytest.raises(trxds.RpcError, match="unrecognized certificate provider instance name: default"):
            await shop.channel.method(ADD)(b"")
