"""A YAML file of resources: taken whole, or refused with every problem by line and field."""

from __future__ import annotations

import json
import sys
from textwrap import dedent
from types import ModuleType

import pytest

from trxds.cli.control_plane import read_for_clients
from trxds.resources.resource_file import ResourceFile, read_resource_file
from trxds.testing.resources import cluster, endpoints, listener, locality, route, routes, stateful_session

MESSAGE = "envoy.config.cluster.v3.Cluster"
CLUSTER = f"type.googleapis.com/{MESSAGE}"


def problems_of(text: str) -> list[str]:
    return [str(problem) for problem in read_resource_file(dedent(text)).problems]


def test_a_good_file_is_its_resources_by_type_and_name() -> None:
    reading = read_resource_file(f"- '@type': {CLUSTER}\n  name: cart\n  type: EDS\n")
    assert reading.resources == {(CLUSTER, "cart"): {"@type": CLUSTER, "name": "cart", "type": "EDS"}}
    assert reading.problems == ()


def test_json_and_every_short_form_of_trxds_testing_is_a_good_file() -> None:
    resources = [
        listener("shop", routes="r", filters=[stateful_session(ttl=60)]),
        routes("r", route({"a": 80, "b": 20})),
        cluster("a", override_statuses=["HEALTHY", "DRAINING"], idle_timeout=60),
        endpoints("a", locality("127.0.0.1:1", "[::1]:2", health={"[::1]:2": "DRAINING"})),
    ]
    reading = read_resource_file(json.dumps(resources))
    assert not reading.problems
    assert list(reading.resources.values()) == resources


def test_documents_anchors_and_camel_case_are_understood() -> None:
    text = f"""\
    - &base
      '@type': {CLUSTER}
      name: a
      lbPolicy: ROUND_ROBIN
    ---
    '@type': {CLUSTER}
    name: b
    """
    assert [name for _, name in read_resource_file(dedent(text)).resources] == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("lb_polcy: A", f"lb_polcy: {MESSAGE} has no such field; did you mean 'lb_policy'?"),
        ("lb_policy: A", f"lb_policy: Invalid enum value A for enum type {MESSAGE}.LbPolicy"),
        ("connect_timeout: 5", "connect_timeout: Duration JSON value not a string: 5"),
        ("connect_timeout: 5x", 'connect_timeout: Duration must end with letter "s": 5x'),
        ("name: a", "name: is already set on line 2"),
        ("eds_cluster_config: yes", f"eds_cluster_config: must be a mapping, the fields of {MESSAGE}.EdsClusterConfig"),
        ("filters: 3", "filters: must be a list"),
        ("filters: [3]", "filters[0]: must be a mapping, the fields of envoy.config.cluster.v3.Filter"),
        ("typed_extension_protocol_options: []", "typed_extension_protocol_options: must be a mapping"),
        ("typed_extension_protocol_options: {a: {}}", "typed_extension_protocol_options.a: '@type' is missing"),
        ("per_connection_buffer_limit_bytes: x", "per_connection_buffer_limit_bytes: "),
    ],
)
def test_a_bad_line_is_named_with_its_field(line: str, problem: str) -> None:
    (found,) = problems_of(f"- '@type': {CLUSTER}\n  name: a\n  {line}\n")
    assert found.startswith(f"line 3: {problem}")


def test_all_problems_of_a_resource_file_are_reported_in_order() -> None:
    text = f"""\
    - '@type': {CLUSTER}
      name: 5
    - '@type': type.googleapis.com/envoy.config.clutter.v3.Clatter
    - name: b
    - 7
    """
    assert problems_of(text) == [
        "line 2: name: is '5'; write a string, in quotes if it looks like something else",
        "line 3: @type: unknown type 'type.googleapis.com/envoy.config.clutter.v3.Clatter'",
        "line 4: '@type' is missing",
        "line 5: must be a mapping with '@type'",
    ]


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("envoy.config.cluster.v3.Clutter", "envoy.config.cluster.v3.Cluster"),
        ("envoy.api.v2.Listener", "envoy.config.listener.v3.Listener"),
        ("envoy.config.route.v3.RouteConfig", "envoy.config.route.v3.RouteConfiguration"),
        ("envoy.extensions.filters.http.HttpFault", "envoy.extensions.filters.http.fault.v3.HTTPFault"),
    ],
)
def test_a_type_that_nobody_knows_is_named_with_the_one_that_it_is_like(written: str, near: str) -> None:
    prefix = "type.googleapis.com"
    assert problems_of(f"- '@type': {prefix}/{written}\n  name: a\n") == [
        f"line 1: @type: unknown type '{prefix}/{written}'; did you mean '{prefix}/{near}'?"
    ]


def test_a_tab_before_a_field_has_its_remedy() -> None:
    (found,) = problems_of(f"- '@type': {CLUSTER}\n\tname: a\n")
    assert found.startswith("line 2: no valid YAML: ") and found.endswith("; indent with spaces")


def test_a_type_that_is_like_another_in_its_package_only_is_no_mistake_for_it() -> None:
    # No package has this one, so no other test can have brought it.
    unknown = "type.googleapis.com/envoy.extensions.filters.http.corsair.v3.Corsair"
    assert problems_of(f"- '@type': {unknown}\n") == [f"line 1: @type: unknown type '{unknown}'"]


def test_a_type_with_a_dot_for_the_slash_is_named_with_the_whole_one() -> None:
    (found,) = problems_of("- '@type': type.googleapis.com.envoy.config.cluster.v3.Cluster\n  name: a\n")
    assert found.endswith("; did you mean 'type.googleapis.com/envoy.config.cluster.v3.Cluster'?")


def test_a_module_of_the_program_that_is_called_like_one_of_protos_is_no_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "user_pb2", ModuleType("user_pb2"))
    unknown = "type.googleapis.com/envoy.config.cluster.v3.Clusters"
    (found,) = problems_of(f"- '@type': {unknown}\n  name: a\n")
    assert found.endswith("; did you mean 'type.googleapis.com/envoy.config.cluster.v3.Cluster'?")


def test_a_type_without_its_prefix_is_written_with_it_in_the_problem() -> None:
    assert problems_of("- '@type': envoy.config.cluster.v3.Cluster\n  name: a\n") == [
        "line 1: the @type has no prefix; write 'type.googleapis.com/envoy.config.cluster.v3.Cluster'"
    ]


def test_a_deep_field_is_named_by_its_whole_path() -> None:
    assignment = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
    text = f"""\
    - '@type': {assignment}
      cluster_name: a
      endpoints:
        - priority: 0
        - lb_endpoints:
            - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port: 80}}}}}}
    """
    (found,) = problems_of(text)
    assert found.startswith("line 6: endpoints[1].lb_endpoints[0].endpoint.address.socket_address.port: ")


def test_a_resource_file_may_have_each_name_once() -> None:
    resource = f"- '@type': {CLUSTER}\n  name: a\n"
    assert problems_of(resource + resource) == ["line 3: 'a' is there already, on line 1"]


def test_a_resource_needs_a_name() -> None:
    assert problems_of(f"- '@type': {CLUSTER}\n") == ["line 1: the resource has no name"]


def test_a_message_that_is_no_resource_is_refused() -> None:
    (found,) = problems_of("- '@type': type.googleapis.com/envoy.config.core.v3.Node\n  id: a\n")
    assert found.startswith("line 1: type.googleapis.com/envoy.config.core.v3.Node is no resource of its own")


@pytest.mark.parametrize("text", ["- [", "a: b: c", "\x00", "- *nowhere", "just words"])
def test_a_file_without_a_yaml_list_is_rejected_with_its_line(text: str) -> None:
    (found,) = problems_of(text)
    assert found.startswith("line 1: ")


@pytest.mark.parametrize("text", ["", "---\n", "# nothing yet\n", "---\n---\n"])
def test_an_empty_file_is_refused_for_it_may_be_so_for_a_moment_only(text: str) -> None:
    assert problems_of(text) == ["line 1: the file is empty; write a list of resources, or [] for none"]


def test_an_empty_resource_list_is_valid() -> None:
    assert read_resource_file("[]") == ResourceFile()


def test_a_list_under_resources_is_read_as_envoy_reads_it() -> None:
    text = f"version_info: '1'\nresources:\n- '@type': {CLUSTER}\n  name: cart\n- '@type': {CLUSTER}\n  nme: a\n"
    assert problems_of(text) == [f"line 6: nme: {MESSAGE} has no such field; did you mean 'name'?"]
    assert list(read_resource_file(text.replace("nme", "name")).resources) == [(CLUSTER, "cart"), (CLUSTER, "a")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("per_connection_buffer_limit_bytes: x", "is 'x'; write a whole number from 0 on"),
        ("per_connection_buffer_limit_bytes: -1", "Value out of range: -1"),
        ("max_requests_per_connection: [1]", "is a list; write a whole number from 0 on"),
        ("alt_stat_name: 7", "is '7'; write a string, in quotes if it looks like something else"),
        ("type: [1]", "is a list; write the name of a value"),
    ],
)
def test_a_value_of_the_wrong_kind_says_what_to_write(line: str, problem: str) -> None:
    (found,) = problems_of(f"- '@type': {CLUSTER}\n  name: a\n  {line}\n")
    assert found == f"line 3: {line.partition(':')[0]}: {problem}"


def test_a_port_that_is_no_number_says_what_to_write() -> None:
    bad = json.dumps(endpoints("a", locality("127.0.0.1:80"))).replace('"port_value": 80', '"port_value": "x"')
    (found,) = problems_of(f"[{bad}]")
    assert found.endswith("endpoint.address.socket_address.port_value: is 'x'; write a whole number from 0 on")


def test_an_error_of_the_whole_resource_names_the_resource() -> None:
    text = f"""\
    - '@type': {CLUSTER}
      name: a
      type: EDS
      cluster_type: {{name: b}}
    """
    (found,) = problems_of(text)
    assert found.startswith("line 1: ")
    assert "oneof" in found


def test_a_cluster_with_proxies_is_good_for_clients_that_are_switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    proxies = "type.googleapis.com/envoy.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport"
    text = json.dumps([{**cluster("a"), "transport_socket": {"name": "p", "typed_config": {"@type": proxies}}}])
    (remark, *_) = read_for_clients(text).remarks
    assert "unrecognized transport socket type" in str(remark)
    monkeypatch.setenv("GRPC_EXPERIMENTAL_XDS_HTTP_CONNECT", "true")
    assert not any("refuse" in str(remark) for remark in read_for_clients(text).remarks)


@pytest.mark.parametrize(
    "value", ["2001-99-99", "0x_", "!!int ''", "!!float x", "!!bool maybe", "!!timestamp x", "9" * 5000]
)
def test_a_value_that_yaml_cannot_convert_is_a_problem_with_its_line(value: str) -> None:
    text = f"- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: cart\n  alt_stat_name: {value}\n"
    [problem] = read_resource_file(text).problems
    assert problem.line == 3
    assert "is read as" in problem.message and "write text in quotes" in problem.message


PACKED = "typed_filter_metadata: {{x: {{'@type': type.googleapis.com/google.protobuf.{}}}}}"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("'@type': [a]", "@type: is already set on line 1"),
        ('"\\ud800": a', "no valid YAML: half of a surrogate pair, which is no character"),
        (f"metadata: {{filter_metadata: {{x: {{a: {'9' * 400}}}}}}}", "metadata.filter_metadata.x: int too large"),
        (f"metadata: {{{PACKED.format('Duration')}}}", "metadata.typed_filter_metadata.x: 'value' is missing"),
        (f"metadata: {{{PACKED.format('Duration, value: 5')}}}", "metadata.typed_filter_metadata.x.value: Duration"),
    ],
)
def test_what_protobuf_and_yaml_stumble_over_is_a_problem_with_its_line(line: str, problem: str) -> None:
    """They raise errors of all kinds, and one that nobody expects would end the channels that read the file."""
    [found] = read_resource_file(f"- '@type': {CLUSTER}\n  name: cart\n  {line}\n").problems
    assert found.line == 3
    assert str(found).startswith(f"line 3: {problem}")


def test_a_message_without_fields_needs_no_value() -> None:
    line = f"metadata: {{{PACKED.format('Empty')}}}"
    assert read_resource_file(f"- '@type': {CLUSTER}\n  name: cart\n  {line}\n").problems == ()


def test_a_mapping_may_replace_what_it_merges() -> None:
    text = f"""\
    - &base
      '@type': {CLUSTER}
      name: a
      type: EDS
    - &other
      <<: *base
      name: b
    - <<: [*other, *base]
      type: STATIC
      name: c
    """
    kinds = {name: value["type"] for (_, name), value in read_resource_file(dedent(text)).resources.items()}
    assert kinds == {"a": "EDS", "b": "EDS", "c": "STATIC"}


def test_the_keys_of_a_map_are_texts_as_in_proto_json() -> None:
    line = "metadata: {filter_metadata: {8080: {on: 1, null: 2}}}"
    [value] = read_resource_file(f"- '@type': {CLUSTER}\n  name: cart\n  {line}\n").resources.values()
    assert value["metadata"] == {"filter_metadata": {"8080": {"on": 1, "null": 2}}}


def test_a_key_of_a_map_may_be_there_once() -> None:
    line = "metadata: {filter_metadata: {x: {a: 1},\n  x: {b: 1}}}"
    problems = problems_of(f"- '@type': {CLUSTER}\n  name: cart\n  {line}\n")
    assert problems == ["line 4: metadata.filter_metadata.x: is already set on line 3"]


def test_a_key_of_a_struct_may_be_there_once() -> None:
    line = "metadata: {filter_metadata: {x: {a: [{b: 1,\n  b: 2}], a: 3}}}"
    assert problems_of(f"- '@type': {CLUSTER}\n  name: cart\n  {line}\n") == [
        "line 4: metadata.filter_metadata.x.a: is already set on line 3",
        "line 4: metadata.filter_metadata.x.a[0].b: is already set on line 3",
    ]


def test_the_list_of_resources_may_be_there_once() -> None:
    text = f"resources:\n- {{'@type': {CLUSTER}, name: cart}}\nresources: []\n"
    assert problems_of(text) == ["line 3: resources: is already set on line 1"]


def test_json_may_write_a_character_as_a_surrogate_pair() -> None:
    assert read_resource_file(json.dumps([cluster("\N{GRINNING FACE}")])).resources.keys() == {(CLUSTER, "\U0001f600")}


def test_a_file_of_too_many_levels_is_a_problem() -> None:
    assert problems_of("[" * 10_000) == ["line 1: too many lists and mappings inside of each other"]


def test_aliases_that_grow_without_end_are_a_problem_and_cost_no_time() -> None:
    bomb = ["v0: &v0 {a: x}", *(f"v{n}: &v{n} {{a: *v{n - 1}, b: *v{n - 1}}}" for n in range(1, 60))]
    lines = ["- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster", "  name: cart", "  metadata:"]
    text = "\n".join([*lines, "    filter_metadata:", "      bomb:", *(f"        {line}" for line in bomb)])
    (problem,) = read_resource_file(text).problems
    assert (problem.line, problem.message) == (1, "has more than 1,000,000 values, with its aliases written out")


def test_clients_know_the_policies_of_trxds_by_their_names() -> None:
    policy = {"@type": "type.googleapis.com/xds.type.v3.TypedStruct", "type_url": "type.googleapis.com/round_robin"}
    policies = {"policies": [{"typed_extension_config": {"name": "p", "typed_config": policy}}]}
    assert read_for_clients(json.dumps([{**cluster("a"), "load_balancing_policy": policies}])).remarks == ()


def test_no_connections_to_a_host_are_refused_as_by_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    breakers = {"per_host_thresholds": [{"max_connections": 0}]}
    text = json.dumps([{**cluster("a"), "circuit_breakers": breakers}])
    (remark, *_) = read_for_clients(text).remarks
    assert "circuit_breakers.per_host_thresholds[0].max_connections" in str(remark)
    monkeypatch.setenv("GRPC_EXPERIMENTAL_XDS_MAX_CONCURRENT_STREAMS_CONNECTION_SCALING", "false")
    assert not any("refuse" in str(remark) for remark in read_for_clients(text).remarks)
