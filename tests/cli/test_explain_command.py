"""`trxds explain` says where a call would go, down to the host, and sends nothing."""

import json

import pytest
from click.testing import CliRunner
from support.mesh import METHOD, PLANE, Mesh
from support.operated import HOSTS, Shop
from support.plain import BY_NAME, hosts_in_memory
from support.sessions import b64
from support.transcript import printed

from trxds import RpcError
from trxds.cli import explain
from trxds.cli.explain import CREDENTIALS, call_metadata, explain_call, has_destination
from trxds.cli.main import main
from trxds.resolver.pick_outcomes import PickedSubchannel
from trxds.testing import resources as xds


async def explained(mesh, *metadata, method=METHOD, within=10, **more):
    bootstrap, network = xds.bootstrap(PLANE), mesh.network
    return await explain_call("xds:///shop", method, metadata, bootstrap, within, 1, network=network, **more)


def run(*command):
    return CliRunner().invoke(main, command)


async def test_the_explain_command_waits_until_the_policies_have_connected_their_hosts(autojump_clock):
    async with Mesh.run(2) as mesh:
        told = await explained(mesh)
        assert isinstance(told.outcome, PickedSubchannel)
        assert told.host in mesh.hosts


async def test_a_cookie_is_decoded_and_judged(autojump_clock):
    async with Mesh.run(3) as mesh:
        told = await explained(mesh, ("cookie", f"session={b64(mesh.hosts[1] + ';cart')}"))
        assert told.host == mesh.hosts[1]
        assert "session by cookie" in str(told)


async def test_a_cookie_that_no_session_filter_reads_is_explained(autojump_clock):
    async with Mesh.run(3, sessions=False) as mesh:
        told = await explained(mesh, ("cookie", f"session={b64(mesh.hosts[1] + ';cart')}"))
        assert "\nnot sticky: the route has no stateful session filter; add " in str(told)


async def test_the_explain_command_sends_no_rpc(autojump_clock):
    async with Mesh.run(1) as mesh:
        await explained(mesh)
        assert [server.calls for server in mesh.servers.values()] == [[]]


async def test_an_explanation_as_data_has_the_outcome_and_its_kind(autojump_clock):
    async with Mesh.run(1) as mesh:
        data = json.loads(json.dumps((await explained(mesh)).as_data()))
        picked = {"address": mesh.hosts[0], "state": "READY", "security": "", "authority": "", "connections": ""}
        assert data["outcome"] == {"kind": "PickedSubchannel"} | picked
        assert data["chosen"]["limit"] == {"seconds": None, "source": "no field sets one"}


async def test_the_command_prints_data_that_other_programs_read():
    async with Shop.open() as shop:
        command = "trxds explain xds:///shop /shop.Cart/Add -H canary:yes --json"
        status, output = await printed(command, shop.names, shop.environ)
    data = json.loads(output)
    assert (status, data["outcome"]["kind"], data["host"]) == (0, "PickedSubchannel", HOSTS[2])
    assert data["chosen"]["filters"][0]["config"]["state"]["name"] == "session"


async def test_a_call_that_would_fail_goes_nowhere(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.route(xds.route("cart", prefix="/other"))
        told = await explained(mesh)
        assert not has_destination(told)
        assert told.refusal is not None


async def test_the_explain_command_names_a_silent_control_plane_after_its_wait(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.network.black_hole(PLANE)
        with pytest.raises(RpcError, match=r'not done after 3 s, waiting for .* control plane: LDS resource "shop"'):
            await explained(mesh, within=3)


def test_a_header_without_a_colon_is_named(tmp_path):
    done = run("explain", "xds:///shop", METHOD, "-H", "tenant", "--bootstrap", __file__)
    assert done.exit_code == 2
    assert "-H number 1 has no colon; write KEY:VALUE" in done.output


def test_a_cookie_without_an_equals_sign_is_named_and_not_shown():
    with pytest.raises(ValueError, match="--cookie number 2 has no equals sign; write NAME=VALUE"):
        call_metadata([], ["a=1", "MTAuMC4xLjExOjUwMDUx"])


def test_a_command_without_a_bootstrap_names_its_own_option(monkeypatch):
    for name in ("GRPC_XDS_BOOTSTRAP", "GRPC_XDS_BOOTSTRAP_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    done = run("explain", "xds:///shop", METHOD)
    assert (done.exit_code, "or --bootstrap to a command" in done.output) == (2, True)


def test_a_binary_header_is_base64_as_on_the_wire():
    assert call_metadata(["User: 7", "trace-BIN:AAEC"], ["a=1", "b=2"]) == [
        ("user", "7"),
        ("trace-bin", b"\0\1\2"),
        ("cookie", "a=1; b=2"),
    ]
    done = run("explain", "xds:///shop", METHOD, "-H", "trace-bin:***", "--bootstrap", __file__)
    assert done.exit_code == 2
    assert "-H number 1: the value of 'trace-bin' is not base64" in done.output


def test_headers_come_from_a_file_whose_lines_are_in_no_error(tmp_path):
    file = tmp_path / "headers"
    file.write_text("authorization: Bearer s3cret\n\nuser: 7\n")
    assert call_metadata([f"@{file}", "x:1"], []) == [("authorization", "Bearer s3cret"), ("user", "7"), ("x", "1")]
    file.write_text("user: 7\ns3cret\n")
    with pytest.raises(ValueError, match=f"-H @{file}: line 2 has no colon; write KEY:VALUE"):
        call_metadata([f"@{file}"], [])
    with pytest.raises(ValueError, match="-H @/nowhere: No such file or directory"):
        call_metadata(["@/nowhere"], [])


async def test_the_tls_of_a_cluster_counts_in_an_explanation_with_xds_credentials(autojump_clock):
    async with Mesh.run(1) as mesh:
        tls = {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"}
        tls |= {"common_tls_context": {"validation_context": {"system_root_certs": {}}}}
        mesh.plane.put(
            xds.cluster("cart") | {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls}}
        )
        assert (await explained(mesh)).host == mesh.hosts[0]
        told = await explained(mesh, credentials=CREDENTIALS["xds"])
        assert told.host == ""  # the host speaks no TLS
        assert "TLS" in str(told.outcome)


def test_a_bad_bootstrap_is_named_before_anything_runs(tmp_path):
    file = tmp_path / "bootstrap.json"
    file.write_text("{}")
    done = run("explain", "xds:///shop", METHOD, "--bootstrap", str(file))
    assert done.exit_code == 2
    assert "xds_servers" in done.output


def test_ctrl_c_before_an_explanation_exits_3(monkeypatch):
    async def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(explain, "explain_call", interrupted)
    done = run("explain", "ipv4:127.0.0.1:1", METHOD)
    assert (done.exit_code, done.output) == (3, "")


@pytest.mark.parametrize("option", [("--within", "nan"), ("--within", "-1"), ("--settle", "-1"), ("--settle", "nan")])
def test_a_wait_that_is_no_time_is_named_before_anything_runs(option):
    done = run("explain", "ipv4:127.0.0.1:1", METHOD, *option)
    assert (done.exit_code, f"'{option[1]}' is no time" in done.output) == (2, True)


async def test_a_target_without_a_control_plane_is_explained_by_its_service_config(autojump_clock):
    config = {"loadBalancingConfig": [{"round_robin": {}}], "statefulSession": {"cookie": {"name": "cart"}}}
    async with hosts_in_memory(2) as mesh:
        cookie = "cookie", f"cart={b64(mesh.hosts[1])}"
        told = await explain_call(
            BY_NAME, METHOD, [cookie], None, 10, 1, service_config=json.dumps(config), network=mesh.network
        )
        assert told.host == mesh.hosts[1]
        assert [step.policy for step in told.steps] == ["xds_override_host_experimental"]


def test_the_explain_command_reads_the_service_config_from_a_file(tmp_path):
    file = tmp_path / "service_config.json"
    file.write_text('{"statefulSession": {"cookie": {"name": "cart"}}}')
    done = run("explain", "ipv4:127.0.0.1:1", METHOD, "--settle", "0", "--service-config", str(file))
    assert "filter stateful_session (from the service config): cookie 'cart' for path /" in done.stdout


def test_a_method_may_be_given_as_trxds_call_takes_it():
    done = run("explain", "ipv4:127.0.0.1:1", METHOD.removeprefix("/"), "--settle", "0")
    assert done.stdout.startswith(f"{METHOD}\n")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b'{"statefulSession": {}}', "--service-config: statefulSession.cookie: is missing"),
        (b"{", "--service-config: no valid JSON at line 1"),
        (b"\xff", "is no UTF-8 text (invalid start byte at byte 0)"),
    ],
)
def test_a_bad_service_config_is_named_before_anything_runs(tmp_path, text, error):
    file = tmp_path / "service_config.json"
    file.write_bytes(text)
    done = run("explain", "ipv4:127.0.0.1:1", METHOD, "--service-config", str(file))
    assert (done.exit_code, error in done.output) == (2, True)
