"""The xDS test client of gRPC's mesh tests, in memory: what it sends, and what a test driver is told of it."""

import re

import pytest
import trio
import trustme
from click.testing import CliRunner
from support.driven_client import CLIENT, driven
from support.raw import call

import trxds
from trxds import StatusCode
from trxds.admin.csds import SERVICE as CSDS
from trxds.admin.health import SERVICE as HEALTH
from trxds.admin.protos import ClientStatusRequest, ClientStatusResponse
from trxds.cli.call.reflection import ReflectionSchema
from trxds.cli.call.schema import find_symbol
from trxds.core.error_text import leaves
from trxds.interop import xds_client
from trxds.interop.cases import Failed
from trxds.interop.rpc_behavior import NAME as RPC_BEHAVIOR
from trxds.testing import resources as xds

TLS = {
    "name": "tls",
    "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": {"validation_context": {"ca_certificate_provider_instance": {"instance_name": "mesh"}}},
    },
}
CHANNELZ = "/grpc.channelz.v1.Channelz/GetTopChannels"


# -- what it sends


async def test_it_sends_so_many_rpcs_a_second_on_each_channel_and_of_each_method(autojump_clock):
    async with driven("--qps=10", "--num_channels=2", "--rpc=UnaryCall,EmptyCall") as driver:
        await driver.stats(4)
        before = await driver.accumulated()
        await trio.sleep(10)
        after = await driver.accumulated()
    for method in ("UNARY_CALL", "EMPTY_CALL"):
        sent = after.stats_per_method[method].rpcs_started - before.stats_per_method[method].rpcs_started
        assert sent == pytest.approx(200, abs=2)


async def test_channels_take_turns(autojump_clock):
    async with driven("--qps=10", "--num_channels=3", hosts=1) as driver:
        await driver.stats(30)
        calls = driver.calls
    peers = [each.peer for _, each in calls]
    assert len(set(peers)) == 3
    assert peers[3:6] == peers[6:9]


async def test_the_flags_give_metadata_timeout_and_sizes(autojump_clock):
    flags = ["--metadata=UnaryCall:color:blue", "--rpc_timeout_sec=7"]
    async with driven(*flags, "--request_payload_size=100", "--response_payload_size=5") as driver:
        await driver.stats(1)
        request, sent = driver.calls[0]
    assert sent.metadata.first("color") == "blue"
    assert sent.timeout == pytest.approx(7, abs=0.1)
    assert (len(request.payload.body), request.response_size) == (100, 5)


@pytest.mark.parametrize(("flag", "failures"), [("--secure_mode=true", 5), ("--secure_mode=false", 0)])
async def test_the_control_plane_decides_on_tls_in_secure_mode_alone(flag, failures, tmp_path, autojump_clock):
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    async with driven("--qps=10", flag, roots=str(tmp_path / "ca.pem")) as driver:
        plaintext = await driver.stats(5)
        driver.mesh.plane.put(xds.cluster("cart") | {"transport_socket": TLS})
        await trio.sleep(5)
        response = await driver.stats(5)
    assert plaintext.num_failures == 0
    assert response.num_failures == failures


async def test_a_policy_of_the_control_plane_has_the_servers_behave_as_its_settings_say(autojump_clock):
    """As custom_lb_test of psm-interop has it: the first policy of the list is one that nobody has."""
    unknown, known = xds.custom_policy("test.Unknown"), xds.custom_policy(RPC_BEHAVIOR, rpcBehavior="error-code-15")
    policies = [each["load_balancing_policy"]["policies"][0] for each in (unknown, known)]
    async with driven("--qps=10") as driver:
        await driver.stats(1)
        driver.mesh.plane.put(xds.cluster("cart") | {"load_balancing_policy": {"policies": policies}})
        await trio.sleep(5)
        before = await driver.accumulated()
        await trio.sleep(5)
        after = await driver.accumulated()
    before, after = (each.stats_per_method["UNARY_CALL"].result for each in (before, after))
    assert after[StatusCode.DATA_LOSS] - before[StatusCode.DATA_LOSS] == pytest.approx(50, abs=1)
    assert after[StatusCode.OK] == before[StatusCode.OK]


async def test_settings_of_that_policy_that_are_no_text_are_refused(autojump_clock):
    async with driven("--qps=10") as driver:
        await driver.stats(1)
        driver.mesh.plane.put(xds.cluster("cart") | xds.custom_policy(RPC_BEHAVIOR, rpcBehavior=15))
        nack = await driver.mesh.plane.wait_for_nack("CDS")
    assert "rpcBehavior is 15; it must be a text" in nack.error


async def test_a_slow_rpc_does_not_delay_the_next(autojump_clock):
    async with driven("--qps=10", "--metadata=UnaryCall:rpc-behavior:sleep-5") as driver:
        begun = trio.current_time()
        await driver.stats(20)
    assert trio.current_time() - begun == pytest.approx(7, abs=0.3)


async def test_what_could_not_be_sent_in_time_is_left_out(autojump_clock):
    async with driven("--qps=10") as driver:
        await driver.stats(1)
        before = await driver.accumulated()
        autojump_clock.jump(60)  # as if the machine had slept
        await trio.sleep(1)
        after = await driver.accumulated()
    sent = after.num_rpcs_started_by_method["UNARY_CALL"] - before.num_rpcs_started_by_method["UNARY_CALL"]
    assert sent == pytest.approx(11, abs=2)


# -- what a driver is told


async def test_a_driver_sees_which_server_answered_how_many_rpcs_of_each_method(autojump_clock):
    async with driven("--qps=10", "--rpc=UnaryCall,EmptyCall") as driver:
        await driver.stats(4)
        response = await driver.stats(40)
    assert response.rpcs_by_peer == {"blue": 20, "red": 20}
    assert response.rpcs_by_method.keys() == {"UnaryCall", "EmptyCall"}
    assert response.num_failures == 0


async def test_the_reply_names_the_server_if_its_headers_do_not(autojump_clock):
    async with driven("--rpc=UnaryCall,EmptyCall", hosts=1, names_itself_in_headers=False) as driver:
        response = await driver.stats(2)
    assert response.rpcs_by_method["UnaryCall"].rpcs_by_peer == {"blue": 1}
    assert response.num_failures == 1  # an Empty has no room for a name


async def test_a_driver_sees_the_statuses_of_rpcs_that_servers_and_the_client_end(autojump_clock):
    async with driven("--qps=10", "--rpc_timeout_sec=1", hosts=1) as driver:
        driver.servers["blue"].code = StatusCode.DATA_LOSS
        response = await driver.stats(10)
        await driver.configure("UNARY_CALL", rpc_behavior="sleep-2")
        timed_out = await driver.stats(10)
        accumulated = await driver.accumulated()
    assert (response.rpcs_by_peer, response.num_failures) == ({"blue": 10}, 0)
    assert (timed_out.rpcs_by_peer, timed_out.num_failures) == ({}, 10)
    results = accumulated.stats_per_method["UNARY_CALL"].result
    assert results.keys() == {StatusCode.DATA_LOSS, StatusCode.DEADLINE_EXCEEDED}
    assert results[StatusCode.DEADLINE_EXCEEDED] >= 10


async def test_without_a_control_plane_every_rpc_is_a_failure(autojump_clock):
    async with driven("--qps=10") as driver:
        driver.mesh.plane_server.stop()
        response = await driver.stats(5, timeout=300)
    assert response.num_failures == 5


async def test_two_drivers_may_watch_at_once(autojump_clock):
    responses = []
    async with driven("--qps=10", hosts=1) as driver:

        async def watch(count):
            responses.append(await driver.stats(count))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, 5)
            nursery.start_soon(watch, 10)
    assert [each.rpcs_by_peer["blue"] for each in responses] == [5, 10]


async def test_a_negative_number_of_rpcs_is_an_invalid_argument(autojump_clock):
    async with driven() as driver:
        with pytest.raises(trxds.RpcError, match="num_rpcs is -1; it must be 0 or more") as raised:
            await driver.stats(-1)
    assert raised.value.status.code is StatusCode.INVALID_ARGUMENT


# -- what a driver configures


async def test_a_driver_changes_methods_metadata_and_timeout(autojump_clock):
    async with driven("--qps=10") as driver:
        await driver.stats(1)
        await driver.configure("EMPTY_CALL", color="red", timeout=3)
        response = await driver.stats(10)
        before = await driver.accumulated()
        await driver.configure()
        await trio.sleep(10)
        after = await driver.accumulated()
    assert response.rpcs_by_method.keys() == {"EmptyCall"}
    emptys = [each for _, each in driver.calls if each.path.endswith("EmptyCall")]
    assert {each.metadata.first("color") for each in emptys} == {"red"}
    assert emptys[-1].timeout == pytest.approx(3, abs=0.1)
    assert after.num_rpcs_started_by_method == before.num_rpcs_started_by_method


async def test_a_wrong_configuration_is_an_invalid_argument_and_changes_nothing(autojump_clock):
    async with driven("--qps=10") as driver:
        with pytest.raises(trxds.RpcError, match="timeout_sec is -1") as raised:
            await driver.configure("EMPTY_CALL", timeout=-1)
        response = await driver.stats(2)
    assert raised.value.status.code is StatusCode.INVALID_ARGUMENT
    assert response.rpcs_by_method.keys() == {"UnaryCall"}


async def test_rpcs_that_servers_keep_open_stay_in_flight(autojump_clock):
    async with driven("--qps=10") as driver:
        await driver.configure("UNARY_CALL", rpc_behavior="keep-open", timeout=1)
        await trio.sleep(60)
        stats = await driver.accumulated()
    ended = stats.num_rpcs_succeeded_by_method["UNARY_CALL"] + stats.num_rpcs_failed_by_method["UNARY_CALL"]
    assert stats.num_rpcs_started_by_method["UNARY_CALL"] - ended >= 500


async def test_the_cookie_of_an_answer_keeps_later_rpcs_at_its_server(autojump_clock):
    """As the tests of session affinity do it: the whole value of set-cookie comes back as the cookie."""
    async with driven("--qps=10", sessions=True) as driver:
        await driver.stats(10)
        first = await driver.stats(1, keys=["set-cookie"])
        [(server, metadata)] = first.metadatas_by_peer.items()
        [cookie] = metadata.rpc_metadata[0].metadata
        await driver.configure("UNARY_CALL", cookie=cookie.value)
        response = await driver.stats(20)
        await driver.configure("UNARY_CALL")
        spread = await driver.stats(20)
    assert cookie.key == "set-cookie"
    assert response.rpcs_by_peer == {server: 20}
    assert len(spread.rpcs_by_peer) == 2


# -- what else is at its port


async def test_csds_channelz_health_and_reflection_are_at_the_same_port(autojump_clock):
    async with driven("--qps=10") as driver:
        await driver.stats(1)
        network = driver.mesh.network
        [reply], _ = await call(network, CLIENT, f"{CSDS}/FetchClientStatus", ClientStatusRequest().SerializeToString())
        [config] = ClientStatusResponse.FromString(reply).config
        channels, _ = await call(network, CLIENT, CHANNELZ, b"")
        health, _ = await call(network, CLIENT, f"{HEALTH}/Check", b"")
        schema = ReflectionSchema(driver.channel, (), timeout=5)
        services = await schema.services()
        for service in set(services) - {"grpc.health.v1.Health"}:
            assert await schema.load(service)
    assert config.client_scope == "xds:///shop"
    assert b"xds:///shop" in channels[0]
    assert health == [b"\x08\x01"]
    assert services == [
        "envoy.service.status.v3.ClientStatusDiscoveryService",
        "grpc.channelz.v1.Channelz",
        "grpc.health.v1.Health",
        "grpc.testing.LoadBalancerStatsService",
        "grpc.testing.XdsUpdateClientConfigureService",
    ]
    assert find_symbol(schema.pool, "grpc.testing.LoadBalancerStatsResponse") is not None


# -- its output and its end


async def test_each_rpc_has_a_line_if_responses_are_printed(autojump_clock, capsys):
    async with driven("--print_response", hosts=1) as driver:
        await driver.stats(1)
        driver.servers["blue"].code = StatusCode.DATA_LOSS
        await driver.stats(1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Greeting: Hello world, this is blue, from 10.0.1.1:50051"
    assert lines[-1] == "RPC failed: DATA_LOSS: as the test wants (host 10.0.1.1:50051)"


async def test_an_expected_status_is_a_success(autojump_clock, capsys):
    async with driven("--print_response", "--expect_status=data_loss", "--fail_on_failed_rpc", hosts=1) as driver:
        driver.servers["blue"].code = StatusCode.DATA_LOSS
        await driver.stats(3)
    lines = capsys.readouterr().out.splitlines()
    assert lines and {line.partition(",")[0] for line in lines} == {"Greeting: Hello world"}


async def test_the_start_and_the_end_of_each_rpc_are_logged_if_wanted(autojump_clock, capsys):
    async with driven("--log_rpc_start_and_end", hosts=1) as driver:
        await driver.stats(1)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "UnaryCall 1 starts"
    assert re.fullmatch(r"UnaryCall 1 ends with OK after \d\.\d{3} s, host 'blue'", lines[1])


async def test_a_failure_ends_the_client_once_an_rpc_has_succeeded(autojump_clock):
    with pytest.raises(ExceptionGroup) as raised:
        async with driven("--fail_on_failed_rpc", "--qps=10", hosts=1) as driver:
            driver.servers["blue"].code = StatusCode.DATA_LOSS
            await driver.stats(5)
            driver.servers["blue"].code = StatusCode.OK
            await driver.stats(5)
            driver.servers["blue"].code = StatusCode.DATA_LOSS
            await trio.sleep(10)
            pytest.fail("the client goes on")
    [failure] = leaves(raised.value)
    assert isinstance(failure, Failed)
    assert "--fail_on_failed_rpc is set: DATA_LOSS" in str(failure)


# -- flags


def run(*flags):
    return CliRunner().invoke(xds_client.main, flags)


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("--rpc=Other", "--rpc: 'Other' is neither EmptyCall nor UnaryCall"),
        ("--metadata=EmptyCall:a", "--metadata: entry 1 has 2 parts"),
        ("--metadata=UnaryCall:te:x", "--metadata: metadata key 'te' belongs to the protocol"),
        ("--expect_status=FINE", "'FINE' is not one of"),
        ("--qps=0", "'--qps': 0 is not in the range"),
        ("--stats_port=70000", "'--stats_port': 70000 is not in the range"),
        ("--enable_csm_observability=true", "--enable_csm_observability: trxds has no labels"),
    ],
)
def test_a_flag_that_makes_no_sense_is_named(flag, problem):
    done = run(flag)
    assert done.exit_code == 2
    assert problem in done.output


def test_a_target_that_cannot_be_opened_names_its_flag(monkeypatch):
    for name in ("GRPC_XDS_BOOTSTRAP", "GRPC_XDS_BOOTSTRAP_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for target, problem in (("xds:///shop", "GRPC_XDS_BOOTSTRAP"), ("foo://bar", "foo")):
        done = run("--stats_port=0", f"--server={target}")
        assert done.exit_code == 2
        assert f"--server={target}: " in done.output and problem in done.output


def test_a_port_that_is_taken_is_named_with_the_remedy():
    async def taken():
        [listener] = await trio.open_tcp_listeners(0, host="0.0.0.0")
        async with listener:
            port = listener.socket.getsockname()[1]
            return port, await trio.to_thread.run_sync(run, f"--stats_port={port}")

    port, done = trio.run(taken)
    assert done.exit_code == 2
    assert f"--stats_port={port}: " in done.output and "take another port" in done.output
