"""`trxds check`: each finding has its line, errors make the exit status, and `--connect` tells what a server says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from trxds.cli.check import check, check_servers
from trxds.cli.json_lines import JsonLines
from trxds.cli.main import main
from trxds.testing import ManagementServer, MemoryNetwork, resources, serve
from trxds.testing.management import DELTA_PATH
from trxds.xds.bootstrap import parse

LOCAL = {"server_uri": "127.0.0.1:18000", "channel_creds": [{"type": "insecure"}]}
GOOD = {"xds_servers": [LOCAL], "node": {"id": "web-1"}}


def findings(document: Any) -> list[str]:
    return [str(finding) for finding in check(json.dumps(document, indent=1)).findings]


def server(**changes: Any) -> dict[str, Any]:
    return {**GOOD, "xds_servers": [{**LOCAL, **changes}]}


def run(path: Path, text: str, *options: str) -> Result:
    path.write_text(text, "utf-8")
    return CliRunner().invoke(main, ["check", str(path), *options])


# -- lines


def test_the_line_of_a_json_value_is_that_of_its_name() -> None:
    lines = JsonLines('\n{"a": {\n"b":\n [1,\n 2, [],\n {}]}\n, "c{\\"": "]"}')
    places: list[tuple[str | int, ...]] = [
        (),
        ("a",),
        ("a", "b"),
        ("a", "b", 0),
        ("a", "b", 1),
        ("a", "b", 3),
        ('c{"',),
    ]
    assert [lines.of(place) for place in places] == [2, 2, 3, 4, 5, 6, 7]


def test_a_missing_json_value_has_the_line_of_its_parent() -> None:
    lines = JsonLines('{\n"a": [\n{}\n]}')
    assert lines.of(("a", 0, "missing", "further")) == 3


def test_a_repeated_json_member_is_found() -> None:
    assert JsonLines('{"a": 1, "b": {"a": 2, "a": 3}}').repeated == [("b", "a")]


# -- findings


def test_a_good_bootstrap_has_no_findings() -> None:
    assert findings(GOOD) == []


@pytest.mark.parametrize("uri", ["xds.example", "dns:///xds.example", "dns:xds.example", "[::1]"])
def test_a_server_without_a_port_is_dialled_where_nobody_wrote(uri: str) -> None:
    (found, *_) = findings(server(server_uri=uri, channel_creds=[{"type": "tls"}]))
    address = uri.rpartition("/")[2].removeprefix("dns:") + ":443"
    says = f"is {uri!r} without a port, so it is dialled at {address}; write the port"
    assert found == f"4: warning: xds_servers[0].server_uri: {says}"


@pytest.mark.parametrize("uri", ["127.0.0.1:443", "dns:///localhost:443", "unix:/run/xds.sock", "[::1]:18000"])
def test_a_server_with_a_port_is_fine(uri: str) -> None:
    assert findings(server(server_uri=uri)) == []


def test_an_authority_without_servers_of_its_own_asks_those_at_the_top() -> None:
    (found,) = findings({**GOOD, "authorities": {"fleet": {"xds_servers": []}}})
    assert found.endswith("authorities['fleet'].xds_servers: is empty, so the servers at the top are asked")


def test_every_field_of_grpc_is_known() -> None:
    document = {
        **server(call_creds=[], server_features=["xds_v3", "trusted_xds_server"]),
        "node": {
            "id": "a",
            "cluster": "b",
            "locality": {"region": "c", "zone": "d", "sub_zone": "e"},
            "metadata": {"f": 1},
        },
        "certificate_providers": {},
        "authorities": {"fleet": {"xds_servers": [LOCAL], "fallback_on_reachability_only": True}},
        "client_default_listener_resource_name_template": "xdstp://fleet/envoy.config.listener.v3.Listener/%s",
        "server_listener_resource_name_template": "grpc/server/%s",
        "allowed_grpc_services": {},
    }
    assert findings(document) == []


def test_an_empty_template_is_none_and_no_finding() -> None:
    assert findings({**GOOD, "client_default_listener_resource_name_template": ""}) == []


def test_errors_and_warnings_come_by_line(tmp_path: Path) -> None:
    text = """\
{
  "xds_servers": [
    {"server_uri": "10.0.0.5", "channel_creds": [{"type": "insecure"}],
     "server_feature": []},
    {"channel_creds": [{"type": "alts"}]}
  ],
  "node": {},
  "node": {"id": 7}
}
"""
    path = tmp_path / "b.json"
    result = run(path, text)
    assert result.exit_code == 1
    assert [line.removeprefix(str(path)) for line in result.output.splitlines()] == [
        ":3: warning: xds_servers[0].channel_creds[0]: "
        "is 'insecure': what the control plane says comes as plain text from another machine",
        ":3: warning: xds_servers[0].server_uri: "
        "is '10.0.0.5' without a port, so it is dialled at 10.0.0.5:443; write the port",
        ":4: warning: xds_servers[0].server_feature: is not known, and has no effect; did you mean 'server_features'?",
        ":5: error: xds_servers[1].channel_creds: none of 'alts' is supported; add one of insecure, tls",
        ":5: error: xds_servers[1].server_uri: is missing; write the control plane's host:port",
        ":8: error: node.id: is a number; write a string",
        ":8: warning: 'node' stands twice here; this one counts",
        ": 3 errors, 4 warnings",
    ]


def test_warnings_alone_are_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    result = run(path, json.dumps({**GOOD, "nodes": {}}))
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, f"{path}: 0 errors, 1 warning")


def test_broken_json_is_one_error_at_its_line(tmp_path: Path) -> None:
    result = run(tmp_path / "b.json", '{"node":\n  oops}')
    assert result.exit_code == 1
    assert ":2: error: no valid JSON: Expecting value (column 3)" in result.output


def test_a_document_that_is_no_object_is_called_the_top_level(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    assert f"{path}:1: error: top level: is a list; write an object with" in run(path, "[]").output


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(b"\xff\xfe")
    result = CliRunner().invoke(main, ["check", str(path)])
    assert result.exit_code == 1 and ":1: error: not UTF-8 text" in result.output


@pytest.mark.parametrize("uri", ["localhost:1", "127.0.0.1:1", "[::1]:1", "unix:/run/ads.sock", "dns:///localhost:1"])
def test_plain_text_within_this_machine_is_usual(uri: str) -> None:
    assert findings(server(server_uri=uri)) == []


@pytest.mark.parametrize("uri", ["10.0.0.5:1", "plane.example:1", "[2001:db8::1]:1"])
def test_plain_text_from_another_machine_is_not(uri: str) -> None:
    (finding,) = findings(server(server_uri=uri))
    assert "plain text from another machine" in finding


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({**GOOD, "node": {"locality": {"sub_zoen": "a"}, "id": "a"}}, "node.locality.sub_zoen: is not known"),
        ({**GOOD, "node": {}}, "node.id: is empty"),
        (
            server(server_features=["xds_v4"]),
            "server_features[0]: is 'xds_v4', which no client knows; did you mean 'xds_v3'?",
        ),
        ({**GOOD, "xds_servers": [LOCAL, LOCAL]}, "xds_servers[1].server_uri: is '127.0.0.1:18000' as before"),
        ({**GOOD, "client_default_listener_resource_name_template": "shop"}, "every target asks for the same Listener"),
        (
            {**GOOD, "client_default_listener_resource_name_template": "xdstp://fleet/%s"},
            "names the authority 'fleet', which is not in authorities; every target will fail",
        ),
        (
            server(channel_creds=[{"type": "tsl"}, {"type": "insecure"}]),
            "channel_creds[0].type: is 'tsl', which this client ignores; did you mean 'tls'?",
        ),
        (
            server(channel_creds=[{"type": "tls", "config": {"ca_certificate_file": "/none"}}]),
            "channel_creds[0].config: cannot read the roots of /none: No such file or directory (on this machine)",
        ),
        (
            server(channel_creds=[{"type": "tls", "config": {"ca_certificates_file": "/none"}}]),
            "config.ca_certificates_file: is not known, and has no effect; did you mean 'ca_certificate_file'?",
        ),
        (
            server(channel_creds=[{"type": "tls"}], call_creds=[{"type": "jwt_token"}]),
            "call_creds[0].type: is 'jwt_token', which this client ignores; did you mean 'jwt_token_file'?",
        ),
        (
            server(
                channel_creds=[{"type": "tls"}],
                call_creds=[{"type": "jwt_token_file", "config": {"jwt_token_file": "/none"}}],
            ),
            "jwt_token_file: jwt_token_file /none cannot be read: No such file or directory (on this machine)",
        ),
        (
            {**GOOD, "certificate_providers": {"mesh": {"plugin_name": "vendors"}}},
            "certificate_providers['mesh'].plugin_name: is 'vendors', which this client does not know: "
            "clusters that name it are refused",
        ),
        ({**GOOD, "authorities": {"a": {"xds_server": []}}}, "authorities['a'].xds_server: is not known"),
    ],
)
def test_a_probable_mistake_in_the_bootstrap_is_a_warning(document: Any, expected: str) -> None:
    (finding,) = findings(document)
    assert "warning: " in finding and expected in finding


# -- what servers answer


async def answers(network: MemoryNetwork, target: str | None = None) -> list[tuple[bool, str]]:
    bootstrap = parse({**GOOD, "xds_servers": [{**LOCAL, "server_uri": "plane:1"}]})
    return [(answer.is_good, answer.text) for answer in (await check_servers(bootstrap, network, target, 5)).values()]


async def test_the_check_lists_the_listeners_of_the_server(autojump_clock: Any) -> None:
    network, plane = MemoryNetwork(), ManagementServer()
    plane.put(resources.listener("shop", routes="r"), resources.listener("depot", routes="r"))
    async with plane.serve("plane:1", network):
        assert await answers(network) == [(True, "answers with 2 Listeners: depot, shop")]
        assert plane.requests[0].node.id == "web-1"


async def test_a_targets_listener_is_there_or_not(autojump_clock: Any) -> None:
    network, plane = MemoryNetwork(), ManagementServer()
    plane.put(resources.listener("shop", routes="r"))
    async with plane.serve("plane:1", network):
        assert await answers(network, "xds:///shop") == [(True, "answers with 1 Listener: shop")]
        assert await answers(network, "xds:///cart") == [(False, 'answers with no Listeners; "cart" is not there')]


async def test_a_listener_that_would_be_refused_is_told(autojump_clock: Any) -> None:
    network, plane = MemoryNetwork(), ManagementServer()
    bad = resources.listener("shop", routes="r")
    bad["api_listener"]["api_listener"]["http_filters"] = []
    plane.put(bad)
    async with plane.serve("plane:1", network):
        ((good, text),) = await answers(network)
    assert not good and text.startswith("answers with 1 Listener: shop; shop: errors validating Listener resource: [")


async def test_a_server_is_asked_in_the_protocol_that_the_bootstrap_says(autojump_clock: Any) -> None:
    network, plane = MemoryNetwork(), ManagementServer()
    plane.put(resources.listener("shop", routes="r"))
    document = {**GOOD, "xds_servers": [{**LOCAL, "server_uri": "plane:1", "server_features": ["trxds.delta"]}]}
    async with serve({DELTA_PATH: plane.handle}, address="plane:1", network=network):
        found = await check_servers(parse(document), network, "xds:///shop", 5)
    assert found["plane:1"].is_good and found["plane:1"].text == "answers with 1 Listener: shop"


async def test_a_server_that_does_not_speak_that_protocol_is_told_with_the_remedy(autojump_clock: Any) -> None:
    network, plane = MemoryNetwork(), ManagementServer()
    handlers = {path: handler for path, handler in plane.handlers.items() if path != DELTA_PATH}
    document = {**GOOD, "xds_servers": [{**LOCAL, "server_uri": "plane:1", "server_features": ["trxds.delta"]}]}
    async with serve(handlers, address="plane:1", network=network):
        found = await check_servers(parse(document), network, "xds:///shop", 5)
    assert found["plane:1"].text.endswith("or take trxds.delta out of its server_features")


async def test_the_check_shows_the_servers_error_for_a_listener(autojump_clock: Any) -> None:
    network, plane = MemoryNetwork(), ManagementServer()
    plane.fail("LDS", "shop", 7, "not for you")
    async with plane.serve("plane:1", network):
        found = await answers(network, "xds:///shop")
    assert found == [(False, "answers with no Listeners; shop: PERMISSION_DENIED: not for you")]


async def test_a_server_that_cannot_be_connected_is_an_error_of_the_check(autojump_clock: Any) -> None:
    assert await answers(MemoryNetwork()) == [
        (False, "no connection: Connection refused; check that it runs, and server_uri in the bootstrap")
    ]


async def test_a_server_that_cannot_be_reached_in_time_is_an_error(autojump_clock: Any) -> None:
    network = MemoryNetwork()
    network.black_hole("plane:1")
    assert await answers(network) == [(False, "no connection within 5 s")]


@pytest.mark.parametrize(
    ("target", "missing"), [(None, 'Listener for node "web-1"'), ("xds:///shop", 'Listener "shop"')]
)
async def test_a_server_that_says_nothing_is_an_error_and_may_have_nothing(
    target: str | None, missing: str, autojump_clock: Any
) -> None:
    network, plane = MemoryNetwork(), ManagementServer()
    plane.withhold("LDS")
    async with plane.serve("plane:1", network):
        text = f"connected, but no answer within 5 s; a server that has no {missing} may be silent"
        assert await answers(network, target) == [(False, text)]


async def test_a_target_of_an_authority_asks_that_authoritys_server(autojump_clock: Any) -> None:
    network, plane = MemoryNetwork(), ManagementServer()
    document = {**GOOD, "authorities": {"fleet": {"xds_servers": [{**LOCAL, "server_uri": "fleet:1"}]}}}
    async with plane.serve("fleet:1", network):
        found = await check_servers(parse(document), network, "xds://fleet/shop", 5)
    assert list(found) == ["fleet:1"]
    assert plane.requests[0].names == ("xdstp://fleet/envoy.config.listener.v3.Listener/shop",)


async def test_a_listener_is_asked_for_by_the_spelling_that_clients_use(autojump_clock: Any) -> None:
    network, plane = MemoryNetwork(), ManagementServer()
    name = "xdstp://fleet/envoy.config.listener.v3.Listener/shop?env=prod&zone=1"
    plane.put(resources.listener(name, routes="r"))
    template = "xdstp://fleet/envoy.config.listener.v3.Listener/%s?zone=1&env=prod"
    servers = [{**LOCAL, "server_uri": "fleet:1"}]
    fleet = {"client_listener_resource_name_template": template, "xds_servers": servers}
    async with plane.serve("fleet:1", network):
        found = await check_servers(parse({**GOOD, "authorities": {"fleet": fleet}}), network, "xds://fleet/shop", 5)
    assert found["fleet:1"].is_good


def test_the_check_command_shows_the_servers_answers_over_tcp(tmp_path: Path) -> None:
    path = tmp_path / "b.json"

    async def in_a_thread() -> Result:
        plane = ManagementServer()
        plane.put(resources.listener("shop", routes="r"))
        async with plane.serve() as address:
            text = json.dumps(server(server_uri=address))
            return await trio.to_thread.run_sync(lambda: run(path, text, "--connect"))

    result = trio.run(in_a_thread)
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == f"{path}: 0 errors, 0 warnings"
    assert result.output.endswith(": answers with 1 Listener: shop\n")


def test_a_target_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    result = run(tmp_path / "b.json", json.dumps(GOOD), "--connect", "--target", "shop")
    assert result.exit_code == 2 and "write xds:///NAME" in result.output


def test_ctrl_c_before_the_answers_exits_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*arguments: object) -> None:
        # As Trio raises it out of a nursery.
        raise BaseExceptionGroup("", [KeyboardInterrupt()])

    monkeypatch.setattr("trxds.cli.main.check_servers", interrupted)
    result = run(tmp_path / "b.json", json.dumps(GOOD), "--connect")
    assert result.exit_code == 3 and result.output.endswith("b.json: 0 errors, 0 warnings\n")


@pytest.mark.parametrize("within", ["-1", "0", "nan", "inf"])
def test_a_wait_that_is_no_time_is_a_usage_error(tmp_path: Path, within: str) -> None:
    result = run(tmp_path / "b.json", json.dumps(GOOD), "--connect", "--within", within)
    assert result.exit_code == 2 and f"'{within}' is no time" in result.output


def test_a_target_without_connecting_is_a_usage_error(tmp_path: Path) -> None:
    result = run(tmp_path / "b.json", json.dumps(GOOD), "--target", "xds:///shop")
    assert result.exit_code == 2 and "--target needs --connect" in result.output
