"""Which sockets of clusters and which metadata of endpoints name an HTTP CONNECT proxy, and which are refused (A86)."""

from __future__ import annotations

import pytest
from support.endpoint_proxies import ADDRESS, KEY, PROXY, TLS, TYPE, proxied_by, tls, wrapper

from trxds.resources import protos
from trxds.resources.experiments import Experiments
from trxds.resources.types import CDS, EDS, ParseContext
from trxds.resources.upstream_tls import UpstreamTls
from trxds.testing import resources as xds

HTTP_CONNECT = ParseContext(experiments=Experiments(http_connect=True), certificate_providers=frozenset({"mesh"}))


def read(kind, resource, context=HTTP_CONNECT):
    return kind.read(protos.from_json({"@type": kind.type_url, **resource}), context)


def cluster_with(socket, context=HTTP_CONNECT):
    return read(CDS, {**xds.cluster("a"), "transport_socket": socket}, context)


def endpoints_with(metadata, of_locality=None, context=HTTP_CONNECT):
    locality = xds.locality("10.0.0.1:1")
    locality["lb_endpoints"][0]["metadata"] = metadata
    if of_locality is not None:
        locality["metadata"] = of_locality
    return read(EDS, xds.endpoints("a", locality), context)


AT = f"field:transport_socket.typed_config.value[{PROXY}]"


def test_the_wrapper_may_be_around_nothing():
    cluster = cluster_with(wrapper()).value
    assert (cluster.http_connect, cluster.tls) == (True, None)


def test_tls_inside_the_wrapper_is_read_as_outside():
    cluster = cluster_with(wrapper(tls())).value
    assert (cluster.http_connect, cluster.tls) == (True, UpstreamTls("mesh"))
    assert not cluster_with({"name": "tls", "typed_config": tls()}).value.http_connect


@pytest.mark.parametrize(
    ("inner", "error"),
    [
        (
            {"@type": f"{TYPE}{PROXY}"},
            f".transport_socket.typed_config.value[{PROXY}] error:unrecognized transport socket type",
        ),
        (
            tls("nobody"),
            f".transport_socket.typed_config.value[{TLS}].common_tls_context.validation_context"
            ".ca_certificate_provider_instance.instance_name"
            " error:unrecognized certificate provider instance name: nobody",
        ),
    ],
    ids=["another type", "bad TLS"],
)
def test_a_bad_socket_inside_the_wrapper_is_refused_with_its_place(inner, error):
    assert cluster_with(wrapper(inner)).errors == (AT + error,)


def test_a_wrapper_that_cannot_be_decoded_is_refused():
    packed = protos.from_json({"@type": CDS.type_url, **xds.cluster("a"), "transport_socket": wrapper()})
    cluster = protos.Cluster.FromString(packed.value)
    cluster.transport_socket.typed_config.value = b"\xff"
    assert CDS.read(protos.pack(cluster), HTTP_CONNECT).errors == (
        f"{AT} error:can't decode Http11ProxyUpstreamTransport",
    )


def test_without_the_guard_the_wrapper_is_refused_as_any_unknown_socket():
    errors = cluster_with(wrapper(), ParseContext()).errors
    assert errors == (f"{AT} error:unrecognized transport socket type",)


def test_the_proxy_is_read_from_the_metadata_of_endpoints_and_localities():
    [[locality]] = endpoints_with(proxied_by("10.9.0.1:3128"), proxied_by("[::9]:3128")).value.priorities
    assert (locality.endpoints[0].proxy, locality.proxy) == ("10.9.0.1:3128", "[::9]:3128")


METADATA_AT = f"metadata.typed_filter_metadata[{KEY}]"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"@type": TYPE + ADDRESS}, ".socket_address error:field not present"),
        ({"@type": TYPE + ADDRESS, "pipe": {"path": "/p"}}, ".socket_address error:field not present"),
        (
            proxied_by("proxy.example:3128")["typed_filter_metadata"][KEY],
            ".socket_address error:Failed to parse address:proxy.example:3128",
        ),
        (
            {"@type": TYPE + ADDRESS, "socket_address": {"address": "10.0.0.1"}},
            ".socket_address.port_value error:field not present",
        ),
        (
            {"@type": TYPE + ADDRESS, "socket_address": {"address": "10.0.0.1", "named_port": "http"}},
            ".socket_address.port_value error:field not present",
        ),
        (
            proxied_by("10.0.0.1:70000")["typed_filter_metadata"][KEY],
            ".socket_address.port_value error:invalid port",
        ),
    ],
    ids=["empty", "a pipe", "a name", "no port", "a named port", "a large port"],
)
def test_a_bad_proxy_address_is_refused_with_its_place(value, error):
    metadata = {"typed_filter_metadata": {KEY: value}}
    context = ParseContext(experiments=Experiments(http_connect=True))
    for _ in range(2):  # the second time too: what is wrong is not remembered as good
        found = endpoints_with(metadata, context=context).errors
        assert found == (f"field:endpoints[0].lb_endpoints[0].{METADATA_AT}.value[{ADDRESS}]{error}",)
    assert endpoints_with({}, metadata).errors == (f"field:endpoints[0].{METADATA_AT}.value[{ADDRESS}]{error}",)


def test_a_proxy_address_in_a_typed_struct_is_refused_with_its_place():
    struct = "xds.type.v3.TypedStruct"
    value = {"@type": TYPE + struct, "type_url": TYPE + ADDRESS}
    errors = endpoints_with({"typed_filter_metadata": {KEY: value}}).errors
    place = f"field:endpoints[0].lb_endpoints[0].{METADATA_AT}.value[{struct}].value[{ADDRESS}]"
    assert errors == (f"{place} error:could not parse",)


def test_metadata_without_a_type_is_refused_with_its_place():
    errors = endpoints_with({"typed_filter_metadata": {KEY: {}}}).errors
    assert errors == (f"field:endpoints[0].lb_endpoints[0].{METADATA_AT}.type_url error:field not present",)


def test_an_address_under_another_key_is_validated_and_no_proxy():
    [[locality]] = endpoints_with(proxied_by("10.9.0.1:3128", key="other")).value.priorities
    assert locality.endpoints[0].proxy == ""
    assert endpoints_with(proxied_by("name:1", key="other")).errors


@pytest.mark.parametrize(
    "metadata",
    [
        {"filter_metadata": {KEY: {"socket_address": {"address": "10.9.0.1", "port_value": 3128}}}},
        {"typed_filter_metadata": {KEY: {"@type": TYPE + TLS}}},
    ],
    ids=["a Struct", "another type"],
)
def test_a_value_of_another_type_is_ignored(metadata):
    [[locality]] = endpoints_with(metadata).value.priorities
    assert locality.endpoints[0].proxy == ""


def test_without_the_guard_typed_metadata_is_not_looked_at():
    parsed = endpoints_with(proxied_by("name:1"), proxied_by("name:1"), ParseContext())
    [[locality]] = parsed.value.priorities
    assert (locality.endpoints[0].proxy, locality.proxy) == ("", "")
