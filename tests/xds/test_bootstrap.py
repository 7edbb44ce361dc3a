"""The bootstrap: what is read from it, and that every mistake is named with its place and remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trxds.core.status import BootstrapError
from trxds.resources.endpoint import LocalityId
from trxds.transport.transport_credentials import Insecure
from trxds.xds.bootstrap import Authority, Bootstrap, Node, ServerConfig, dial_address, load, parse, read

INSECURE = [{"type": "insecure"}]
SERVER = {"server_uri": "10.0.0.5:18000", "channel_creds": INSECURE}


def problem(document: Any) -> str:
    with pytest.raises(BootstrapError) as caught:
        parse(document)
    return str(caught.value)


def server_problem(**changes: Any) -> str:
    return problem({"xds_servers": [{**SERVER, **changes}]})


def test_every_supported_field_of_the_bootstrap_is_read() -> None:
    bootstrap = parse(
        {
            "xds_servers": [
                {**SERVER, "server_features": ["xds_v3", "ignore_resource_deletion", "from_the_future", 7]}
            ],
            "node": {
                "id": "web-1",
                "cluster": "web",
                "locality": {"region": "eu", "zone": "eu-1", "sub_zone": "rack 7"},
                "metadata": {"team": {"name": "shop"}},
            },
            "client_default_listener_resource_name_template": "mesh/%s",
            "authorities": {"fleet": {"xds_servers": [{**SERVER, "server_uri": "fleet:1"}]}},
        }
    )
    assert bootstrap == Bootstrap(
        servers=(ServerConfig("10.0.0.5:18000", features=frozenset({"xds_v3", "ignore_resource_deletion"})),),
        node=Node("web-1", "web", LocalityId("eu", "eu-1", "rack 7"), {"team": {"name": "shop"}}),
        listener_template="mesh/%s",
        authorities={
            "fleet": Authority("xdstp://fleet/envoy.config.listener.v3.Listener/%s", (ServerConfig("fleet:1"),))
        },
    )


def test_the_default_template_of_an_authority_has_its_name_percent_coded() -> None:
    authorities = parse({"xds_servers": [SERVER], "authorities": {"fleet/eu #1": {}}}).authorities
    template = "xdstp://fleet%2Feu%20%231/envoy.config.listener.v3.Listener/%s"
    assert authorities == {"fleet/eu #1": Authority(template)}


def test_an_authority_may_fall_back_on_reachability_only() -> None:
    authorities = {"fleet": {"fallback_on_reachability_only": True}, "other": {}}
    read = parse({"xds_servers": [SERVER], "authorities": authorities}).authorities
    assert {name: its.fallback_on_reachability_only for name, its in read.items()} == {"fleet": True, "other": False}


def test_only_servers_are_required() -> None:
    assert parse({"xds_servers": [SERVER]}) == Bootstrap(servers=(ServerConfig("10.0.0.5:18000"),))


def test_unknown_fields_of_the_bootstrap_are_ignored() -> None:
    document: dict[str, Any] = {
        "xds_servers": [{**SERVER, "new": 1}],
        "node": {"new": []},
        "certificate_providers": {},
        "new": None,
    }
    assert parse(document) == parse({"xds_servers": [SERVER]})


def test_null_is_as_good_as_absent() -> None:
    assert parse({"xds_servers": [SERVER], "node": None, "authorities": None}) == parse({"xds_servers": [SERVER]})


def test_the_first_supported_credentials_are_taken() -> None:
    creds = [{"type": "google_default"}, {"type": "insecure"}, {"type": "tls"}]
    assert parse({"xds_servers": [{**SERVER, "channel_creds": creds}]}).servers[0].credentials == Insecure()


def test_a_file_wins_over_inline_text(tmp_path: Path) -> None:
    path = tmp_path / "bootstrap.json"
    path.write_text(json.dumps({"xds_servers": [{**SERVER, "server_uri": "from-file:1"}]}))
    environ = {"GRPC_XDS_BOOTSTRAP": str(path), "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps({"xds_servers": [SERVER]})}
    assert load(environ).servers[0].uri == "from-file:1"


def test_inline_text_serves_without_a_file() -> None:
    assert load({"GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps({"xds_servers": [SERVER]})}).servers[0].uri == "10.0.0.5:18000"


def test_the_error_without_a_bootstrap_names_both_variables() -> None:
    with pytest.raises(BootstrapError, match=r"set GRPC_XDS_BOOTSTRAP to the path .* or GRPC_XDS_BOOTSTRAP_CONFIG"):
        load({"GRPC_XDS_BOOTSTRAP": "", "GRPC_XDS_BOOTSTRAP_CONFIG": ""})


def test_a_file_that_is_not_there_is_named_with_its_variable(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    with pytest.raises(BootstrapError) as caught:
        load({"GRPC_XDS_BOOTSTRAP": str(path)})
    assert str(caught.value) == (
        f"bootstrap file {path} (from GRPC_XDS_BOOTSTRAP): cannot be read: No such file or directory; "
        "check path and permissions"
    )


@pytest.mark.parametrize("before", ["", "\n "])
def test_a_document_in_the_place_of_its_path_is_not_shown(before: str) -> None:
    with pytest.raises(BootstrapError) as caught:
        load({"GRPC_XDS_BOOTSTRAP": before + json.dumps({"xds_servers": [SERVER]})})
    assert str(caught.value) == (
        "GRPC_XDS_BOOTSTRAP is JSON text, and not a path; put it into GRPC_XDS_BOOTSTRAP_CONFIG"
    )


@pytest.mark.parametrize("text", ["bootstrap.json", "'{}'", '"{}"', "[]"])
def test_a_path_or_a_quoted_document_in_the_place_of_a_document_is_no_mistake_in_its_json(text: str) -> None:
    with pytest.raises(BootstrapError) as caught:
        load({"GRPC_XDS_BOOTSTRAP_CONFIG": text})
    assert str(caught.value) == (
        "GRPC_XDS_BOOTSTRAP_CONFIG is no JSON object, which begins with a brace and has no quotes around it; "
        "put the path of a file into GRPC_XDS_BOOTSTRAP"
    )


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "binary.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BootstrapError, match=r"bootstrap file .*binary\.json: not UTF-8 text"):
        read(path)


def test_broken_json_is_located() -> None:
    assert problem('{"xds_servers": [\n  {,}]}') == (
        "bootstrap: no valid JSON at line 2, column 4: Expecting property name enclosed in double quotes; "
        "correct the text there"
    )


def test_the_source_leads_each_problem() -> None:
    with pytest.raises(BootstrapError) as caught:
        load({"GRPC_XDS_BOOTSTRAP_CONFIG": '{"xds_servers": 1, "node": 2}'})
    assert [line.split(": ")[:2] for line in str(caught.value).splitlines()] == [
        ["GRPC_XDS_BOOTSTRAP_CONFIG", "xds_servers"],
        ["GRPC_XDS_BOOTSTRAP_CONFIG", "node"],
    ]


@pytest.mark.parametrize("document", ["[]", "7", "null", '"text"', "true"])
def test_a_document_that_is_no_object_is_refused(document: str) -> None:
    assert 'write an object with "xds_servers" and "node"' in problem(document)


@pytest.mark.parametrize("servers", [None, []])
def test_a_bootstrap_needs_a_server(servers: Any) -> None:
    assert problem({"xds_servers": servers}).startswith("bootstrap: xds_servers: needs at least one server; write [{")


def test_a_server_must_be_an_object() -> None:
    assert "bootstrap: xds_servers[0]: is a string; write an object" in problem({"xds_servers": ["10.0.0.5:18000"]})


def test_a_missing_server_uri_is_named_by_its_index() -> None:
    text = problem({"xds_servers": [SERVER, {"channel_creds": INSECURE}]})
    assert text == "bootstrap: xds_servers[1].server_uri: is missing; write the control plane's host:port"


def test_an_empty_server_uri_is_missing() -> None:
    assert "xds_servers[0].server_uri: is missing" in server_problem(server_uri="")


def test_a_server_uri_of_another_type_is_one_problem() -> None:
    assert server_problem(server_uri=18000) == "bootstrap: xds_servers[0].server_uri: is a number; write a string"


@pytest.mark.parametrize("uri", ["host:port", "host:65536", ":18000", "a:b:c"])
def test_a_server_uri_must_have_a_port_that_can_be(uri: str) -> None:
    assert server_problem(server_uri=uri).endswith(f"{uri!r} is no host:port; write for example 10.0.0.5:18000")


@pytest.mark.parametrize("uri", ["a\0b:1", "[::1%\0]:1", "unix:/a\0b"], ids=ascii)
def test_a_server_uri_with_a_nul_character_is_refused(uri: str) -> None:
    assert server_problem(server_uri=uri).endswith(f".server_uri: {uri!r} has a NUL character; leave it out")


def test_a_server_uri_of_an_unknown_scheme_is_refused() -> None:
    assert "scheme 'https' is not supported; write host:port" in server_problem(server_uri="https://plane:1")


@pytest.mark.parametrize(("servers", "kind"), [({}, "an object"), ("10.0.0.5:18000", "a string")])
def test_servers_of_another_type_are_not_called_missing(servers: Any, kind: str) -> None:
    assert problem({"xds_servers": servers}).startswith(f'bootstrap: xds_servers: is {kind}; write [{{"server_uri": ')


@pytest.mark.parametrize("creds", [None, []])
def test_channel_creds_are_required(creds: Any) -> None:
    assert server_problem(channel_creds=creds) == (
        'bootstrap: xds_servers[0].channel_creds: is missing; write [{"type": "insecure"}] or [{"type": "tls"}]'
    )


@pytest.mark.parametrize(
    ("creds", "text"),
    [
        ({}, 'channel_creds: is an object; write [{"type": "insecure"}] or [{"type": "tls"}]'),
        ("insecure", 'channel_creds: is a string; write [{"type": "insecure"}] or [{"type": "tls"}]'),
        (["insecure"], "channel_creds[0]: is a string; write an object"),
    ],
)
def test_channel_creds_of_another_type_are_not_called_missing(creds: Any, text: str) -> None:
    assert server_problem(channel_creds=creds) == f"bootstrap: xds_servers[0].{text}"


def test_credentials_must_include_a_supported_type() -> None:
    assert server_problem(channel_creds=[{"type": "alts"}]) == (
        "bootstrap: xds_servers[0].channel_creds: none of 'alts' is supported; add one of insecure, tls"
    )


def test_a_credentials_type_must_be_a_string() -> None:
    assert "channel_creds[0].type: is a number; write a string" in server_problem(channel_creds=[{"type": 1}])


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ([], "node: is a list; write an object"),
        ({"id": 5}, "node.id: is a number; write a string"),
        ({"cluster": True}, "node.cluster: is a boolean; write a string"),
        ({"locality": "eu"}, "node.locality: is a string; write an object"),
        ({"locality": {"zone": 1.5}}, "node.locality.zone: is a number; write a string"),
        ({"metadata": []}, "node.metadata: is a list; write an object"),
    ],
)
def test_a_malformed_node_is_located(node: Any, expected: str) -> None:
    assert problem({"xds_servers": [SERVER], "node": node}) == f"bootstrap: {expected}"


@pytest.mark.parametrize(
    "value",
    ["\ud800", 10**400, b"x", object(), {7: "x"}, {"\ud800": 1}],
    ids=["half a character", "too large", "bytes", "an object", "a number as key", "half a character as key"],
)
def test_node_metadata_that_cannot_be_sent_is_refused(value: Any) -> None:
    text = problem({"xds_servers": [SERVER], "node": {"metadata": {"key": value}}})
    assert text.startswith("bootstrap: node.metadata: cannot be sent (")
    assert text.endswith("); write strings, 64-bit numbers, lists and objects with string keys")


def test_an_authority_whose_name_has_half_a_character_is_refused() -> None:
    assert problem({"xds_servers": [SERVER], "authorities": {"\ud800": {}}}) == (
        r"bootstrap: authorities['\ud800']: the name has half of a surrogate pair; write whole characters"
    )


def test_an_empty_listener_template_is_none() -> None:
    empty = {"client_listener_resource_name_template": ""}
    bootstrap = parse(
        {"xds_servers": [SERVER], "client_default_listener_resource_name_template": "", "authorities": {"a": empty}}
    )
    assert bootstrap.listener_template == "%s"
    assert bootstrap.authorities == {"a": Authority("xdstp://a/envoy.config.listener.v3.Listener/%s")}


def test_a_listener_template_must_be_a_string() -> None:
    text = problem({"xds_servers": [SERVER], "client_default_listener_resource_name_template": 1})
    assert text == "bootstrap: client_default_listener_resource_name_template: is a number; write a string"


@pytest.mark.parametrize(
    ("authorities", "expected"),
    [
        ([], "authorities: is a list; write an object"),
        ({"a": 1}, "authorities['a']: is a number; write an object"),
        ({"a": {"xds_servers": {}}}, "authorities['a'].xds_servers: is an object; write ["),
        (
            {"a": {"fallback_on_reachability_only": "yes"}},
            "authorities['a'].fallback_on_reachability_only: is a string; write true or false",
        ),
        (
            {"a": {"client_listener_resource_name_template": "xdstp://b/%s"}},
            "authorities['a'].client_listener_resource_name_template: is 'xdstp://b/%s'; it must begin with 'xdstp://a/'",
        ),
        (
            {"a/b": {"client_listener_resource_name_template": "xdstp://a/b/%s"}},
            "authorities['a/b'].client_listener_resource_name_template: is 'xdstp://a/b/%s'; it must begin with 'xdstp://a%2Fb/'",
        ),
    ],
)
def test_a_malformed_authority_is_located(authorities: Any, expected: str) -> None:
    assert problem({"xds_servers": [SERVER], "authorities": authorities}).startswith(f"bootstrap: {expected}")


def test_all_problems_of_a_bootstrap_are_reported_at_once() -> None:
    lines = problem({"xds_servers": [{}], "node": {"id": 1}, "authorities": 3}).splitlines()
    assert [line.split(": ")[1] for line in lines] == [
        "xds_servers[0].server_uri",
        "xds_servers[0].channel_creds",
        "node.id",
        "authorities",
    ]


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("10.0.0.5:18000", "10.0.0.5:18000"),
        ("10.0.0.5:65535", "10.0.0.5:65535"),
        ("plane.example", "plane.example:443"),
        ("unix", "unix:443"),
        ("dns", "dns:443"),
        ("[::1]:18000", "[::1]:18000"),
        ("[::1]", "[::1]:443"),
        ("dns:///plane.example:18000", "plane.example:18000"),
        ("dns://8.8.8.8/plane.example", "plane.example:443"),
        ("dns:plane.example:18000", "plane.example:18000"),
        ("ipv4:10.0.0.5:18000", "10.0.0.5:18000"),
        ("ipv6:[::1]:18000", "[::1]:18000"),
        ("passthrough:///plane:1", "plane:1"),
        ("unix:/run/plane.sock", "unix:/run/plane.sock"),
        ("unix:///run/plane.sock", "unix:/run/plane.sock"),
    ],
)
def test_a_server_uri_is_a_grpc_target(uri: str, address: str) -> None:
    assert dial_address(uri) == address


def test_server_features_must_be_a_list() -> None:
    text = server_problem(server_features="ignore_resource_deletion")
    assert text == "bootstrap: xds_servers[0].server_features: is a string; write a list"


def test_servers_that_differ_in_unknown_features_only_are_one() -> None:
    features = (["xds_v3"], ["xds_v3", "from_the_future"], ["xds_v3", 7, None])
    found = {parse({"xds_servers": [{**SERVER, "server_features": each}]}).servers for each in features}
    assert len(found) == 1


def test_an_authority_with_an_empty_list_has_the_top_level_servers() -> None:
    bootstrap = parse({"xds_servers": [SERVER], "authorities": {"fleet": {"xds_servers": []}}})
    assert bootstrap.authorities["fleet"].servers == ()
