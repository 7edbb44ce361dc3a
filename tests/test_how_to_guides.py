"""What docs/how-to says that is neither a program of its own nor held by the tests with other programs."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from support import guides
from support.mesh import METHOD, Mesh, ask, spread
from support.plain import hosts_in_memory

import trxds
from trxds import RpcError, StatusCode
from trxds.cli.check import check
from trxds.testing import Call

ROOT = Path(__file__).parent.parent
CART = "cart.shop.svc.cluster.local"


def pod(deployment: dict[str, Any]) -> dict[str, Any]:
    return deployment["spec"]["template"]["spec"]  # type: ignore[no-any-return]


# -- Kubernetes


def test_the_headless_service_and_its_deployment_fit_each_other_and_the_target() -> None:
    ((service, server, client),) = guides.documents("kubernetes")
    metadata = service["metadata"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == server["spec"]["selector"]["matchLabels"]
    (container,) = pod(server)["containers"]
    (port,) = service["spec"]["ports"]
    assert container["ports"] == [{"name": port["name"], "containerPort": port["port"]}]
    assert container["readinessProbe"]["grpc"]["port"] == port["port"]
    (variable,) = pod(client)["containers"][0]["env"]
    name = f"{metadata['name']}.{metadata['namespace']}.svc.cluster.local"
    assert variable == {"name": "CART", "value": f"dns:///{name}:{port['port']}"}
    assert 'os.environ["CART"]' in guides.blocks("kubernetes", "python")[0]


def test_a_deployment_selects_its_own_pods() -> None:
    every = [*guides.documents("kubernetes")[0], *guides.documents("istio")[0]]
    deployments = [each for each in every if each["kind"] == "Deployment"]
    assert len(deployments) == 3
    for each in deployments:
        assert each["spec"]["selector"]["matchLabels"].items() <= each["spec"]["template"]["metadata"]["labels"].items()


def test_a_pod_has_time_for_its_hook_and_for_a_graceful_stop_of_thirty_seconds() -> None:
    ((_, server, _),) = guides.documents("kubernetes")
    (container,) = pod(server)["containers"]
    (_, seconds) = container["lifecycle"]["preStop"]["exec"]["command"]
    assert int(seconds) > 30 + 30, "trxds may use a DNS answer for 30 s, and so may the cluster's DNS"
    assert pod(server)["terminationGracePeriodSeconds"] > int(seconds) + 30
    assert "server.stop(grace=30)" in guides.text("kubernetes")


# -- Istio


def test_the_version_of_istio_is_the_one_that_is_built() -> None:
    (version,) = re.findall(
        r"^\tistio\.io/istio (\S+)$", (ROOT / "tests/peers/istio/go.mod").read_text("utf-8"), re.MULTILINE
    )
    assert f"`istio.io/istio` {version}," in guides.text("istio")
    assert f"| {version} |" in (ROOT / "docs/peers.md").read_text("utf-8")


def test_a_route_of_istio_leads_to_subsets_that_its_rule_has() -> None:
    for rule, service in [each for each in guides.documents("istio") if len(each) == 2]:
        assert rule["spec"]["host"] == CART and service["spec"]["hosts"] == [CART]
        subsets = {each["name"] for each in rule["spec"]["subsets"]}
        targets = [each["destination"] for http in service["spec"]["http"] for each in http["route"]]
        assert targets and all(each["host"] == CART and each["subset"] in subsets for each in targets)


def test_a_label_of_the_sticky_service_is_one_that_kubernetes_takes() -> None:
    service = guides.documents("istio")[4][0]
    (value,) = service["metadata"]["labels"].values()
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value)


# As Istio's agent writes it: Go's JSON of a protobuf struct has a member without a value.
AGENTS_NODE = {"id": "sidecar~10.0.0.7~web.shop~shop.svc.cluster.local", "locality": {}, "UserAgentVersionType": None}


def test_the_bootstrap_of_istios_agent_has_the_remark_that_the_guide_explains() -> None:
    server = {"server_uri": "unix:///etc/istio/proxy/XDS", "channel_creds": [{"type": "insecure"}]}
    template = {"server_listener_resource_name_template": "xds.istio.io/grpc/lds/inbound/%s"}
    reading = check(json.dumps({"xds_servers": [server], "node": AGENTS_NODE, **template}))
    (remark,) = reading.findings
    assert (remark.weight, "UserAgentVersionType" in str(remark)) == ("warning", True)
    assert "`trxds check` warns of `node.UserAgentVersionType`" in guides.text("istio")


def test_the_bootstrap_of_the_guide_for_go_control_plane_has_nothing_wrong_or_unusual() -> None:
    (text,) = guides.blocks("go-control-plane", "json")
    assert check(text).findings == ()


def test_the_bootstrap_without_istios_agent_is_in_plain_text_and_nothing_else_is_unusual() -> None:
    (text,) = guides.blocks("istio", "json")
    (remark,) = check(text).findings
    assert remark.weight == "warning" and "plain text" in remark.text


# -- without a control plane

CONFIG = guides.python_value("without-a-control-plane", "CONFIG")
AFFINITY = trxds.CookieAffinity("session")


async def test_the_guides_config_reaches_all_hosts_and_keeps_sessions(autojump_clock):
    async with (
        hosts_in_memory(3) as mesh,
        mesh.channel(service_config=CONFIG, affinity=AFFINITY) as channel,
        channel.session(require=True) as session,
    ):
        assert len(await spread(session, 6)) == 1
        assert set(await spread(channel, 9)) == set(mesh.hosts)


async def test_the_guides_config_retries_only_the_method_that_it_names(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel(service_config=CONFIG) as channel:
        failures = iter([True, True, False])

        async def fails_twice(call: Call) -> None:
            if next(failures):
                call.abort(StatusCode.UNAVAILABLE, "failing")
            await call.send(b"done")

        (server,) = mesh.servers.values()
        server.fallback = fails_twice
        assert await channel.method("/shop.Cart/List")(b"") == b"done"
        failures = iter([True])
        with pytest.raises(RpcError, match="failing"):
            await channel.method("/shop.Cart/Add")(b"")


async def test_the_guides_config_bounds_a_call_that_gives_no_timeout(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel(service_config=CONFIG) as channel:
        mesh.network.black_hole(mesh.hosts[0])
        for method, seconds in (("List", 2), ("Add", 5)):
            with pytest.raises(RpcError, match=f"not done after {seconds} s"):
                await channel.method(f"/shop.Cart/{method}")(b"")


async def test_the_guides_config_ejects_a_host_whose_calls_fail(autojump_clock):
    async with hosts_in_memory(3) as mesh, mesh.channel(service_config=CONFIG) as channel:
        await ask(channel)
        bad = mesh.hosts[0]

        async def fails(call: Call) -> None:
            call.abort(StatusCode.INTERNAL, "broken")

        mesh.servers[bad].handlers[METHOD] = fails
        # 20 calls of a host in an interval of 10 s are enough to judge it.
        for _ in range(90):
            with suppress(RpcError):
                await ask(channel)
        await trio.sleep(11)
        assert bad not in await spread(channel, 10)


@pytest.mark.parametrize("argument", [{"service_config": CONFIG}, {"affinity": AFFINITY}], ids=str)
async def test_what_is_for_targets_without_a_control_plane_is_an_error_beside_one(argument, autojump_clock):
    async with Mesh.run(1) as mesh:
        with pytest.raises(ValueError, match="xds"):
            async with mesh.channel(**argument):
                pass
