"""HTTP filters in listeners and routes (A39), with a program's own types; tested from ADS bytes to RPCs."""

import pytest
from google.protobuf.descriptor_pb2 import FileOptions
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct
from support.mesh import METHOD, PLANE, Mesh, ask
from support.own_filters import TENANT, Tenant, keep_metadata, listen
from trio.testing import wait_all_tasks_blocked

from trxds import RpcError, open_xds_client
from trxds.filters import FilterType, OverrideType
from trxds.testing import resources as xds

TENANT_FILTER = {TENANT: FilterType(Tenant)}
WRAPPER = "type.googleapis.com/envoy.config.route.v3.FilterConfig"


def tenant(header="x-tenant", name="tenant", **more):
    return xds.custom_filter(name, TENANT, header=header) | more


def override(value, **more):
    return xds.typed_struct(TENANT, header="x-tenant", value=value, **more)


async def headers(mesh, key="x-tenant", filters=TENANT_FILTER, path=METHOD):
    """Return the values of a header that reach a host by a call of a new channel."""
    seen = keep_metadata(mesh)
    async with mesh.channel(http_filters=filters) as channel:
        await channel.method(path)(b"", timeout=5)
    return seen[0].all(key)


async def refusal(mesh, filters=TENANT_FILTER):
    """Return the message of a call whose listener or routes are refused."""
    async with mesh.channel(http_filters=filters) as channel:
        with pytest.raises(RpcError) as caught:
            await ask(channel, timeout=5)
    return caught.value.status.message


# -- the list in the listener


@pytest.mark.parametrize("struct", ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"])
async def test_a_typed_struct_configures_a_filter_of_the_programs_own(struct, autojump_clock):
    entry = tenant()
    entry["typed_config"]["@type"] = f"type.googleapis.com/{struct}"
    async with Mesh.run(1) as mesh:
        listen(mesh, entry)
        assert await headers(mesh) == ["tenant"]


async def test_a_type_that_the_channel_does_not_have_is_refused_with_the_remedies(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, tenant())
        text = await refusal(mesh, None)
        assert "http_filters[0].typed_config.value[xds.type.v3.TypedStruct].value[my.pkg.Tenant]" in text
        assert "unsupported filter type; mark it is_optional, or give the channel a filter for it" in text


async def test_an_optional_filter_that_the_channel_does_not_have_is_left_out(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, tenant(is_optional=True))
        assert await headers(mesh, filters=None) == []


async def test_an_optional_filter_that_the_channel_has_must_be_right(autojump_clock):
    def parse(fields):
        raise ValueError("header: not set")

    async with Mesh.run(1) as mesh:
        listen(mesh, tenant(is_optional=True))
        assert "header: not set" in await refusal(mesh, {TENANT: FilterType(Tenant, parse)})


async def test_two_filters_of_one_type_have_their_own_configurations(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, tenant(name="one"), tenant(name="two"))
        assert await headers(mesh) == ["one", "two"]


async def test_a_refusal_by_the_programs_parser_names_filter_and_place_and_the_channel_goes_on(autojump_clock):
    def parse(fields):
        if "header" not in fields:
            raise KeyError("header")
        return fields

    async with Mesh.run(1) as mesh:
        listen(mesh, xds.custom_filter("tenant", TENANT))
        async with mesh.channel(http_filters={TENANT: FilterType(Tenant, parse)}) as channel:
            place = r"http_filters\[0\]\.typed_config\.value\[xds.type.v3.TypedStruct\]\.value\[my\.pkg\.Tenant\]"
            with pytest.raises(RpcError, match=place + """ error:filter "tenant": KeyError: 'header'"""):
                await ask(channel, timeout=5)
            listen(mesh, tenant())
            await ask(channel, wait_for_ready=True)
            listen(mesh, xds.custom_filter("tenant", TENANT))
            await wait_all_tasks_blocked()
            await ask(channel)  # by the last good one
            assert mesh.plane.requests[-1].answer == "NACK"


# -- a compiled message


async def test_a_filter_with_a_message_gets_the_message_that_was_sent(autojump_clock):
    kind = FilterType(Tenant, lambda message: {"header": f"x-{message.seconds}"}, Duration)
    async with Mesh.run(1) as mesh:
        config = {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "7s"}
        listen(mesh, {"name": "tenant", "typed_config": config})
        assert await headers(mesh, "x-7", {"google.protobuf.Duration": kind}) == ["tenant"]


async def test_without_a_parser_the_message_is_the_settings(autojump_clock):
    made = []

    def make(settings, context):
        made.append(settings)

    async with Mesh.run(1) as mesh:
        config = {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "7s"}
        listen(mesh, {"name": "tenant", "typed_config": config})
        await headers(mesh, filters={"google.protobuf.Duration": FilterType(make, message=Duration)})
    assert made == [Duration(seconds=7)]


async def test_a_typed_struct_becomes_the_filters_message(autojump_clock):
    name = "google.protobuf.FileOptions"
    kind = FilterType(Tenant, lambda message: {"header": message.java_package}, FileOptions)
    async with Mesh.run(1) as mesh:
        listen(mesh, xds.custom_filter("tenant", name, java_package="x-java"))
        assert await headers(mesh, "x-java", {name: kind}) == ["tenant"]
        listen(mesh, xds.custom_filter("tenant", name, jav_package="x-java"))
        text = await refusal(mesh, {name: kind})
        assert f'filter "tenant": the struct is no {name}' in text and "jav_package" in text


async def test_a_message_that_the_program_has_not_compiled_is_refused_with_the_remedies(autojump_clock):
    async with Mesh.run(1) as mesh:
        config = {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "7s"}
        listen(mesh, {"name": "tenant", "typed_config": config})
        text = await refusal(mesh, {"google.protobuf.Duration": FilterType(Tenant)})
        assert 'filter "tenant": the client has no message of that type; send an xds.type.v3.TypedStruct' in text


# -- overrides


async def test_the_most_specific_override_of_an_own_filter_wins_entirely(autojump_clock):
    def shares(**clusters):
        entry = xds.route(dict.fromkeys(clusters, 1))
        for each in entry["route"]["weighted_clusters"]["clusters"]:
            each |= xds.filter_overrides(tenant=override(clusters[each["name"]])) if clusters[each["name"]] else {}
        return entry

    async with Mesh.run(1) as mesh:
        listen(mesh, tenant())
        table = xds.routes(
            "routes",
            xds.route("cart", prefix="/a.") | xds.filter_overrides(tenant=override("route")),
            shares(cart="cluster") | {"match": {"prefix": "/b."}} | xds.filter_overrides(tenant=override("route")),
            xds.route("cart", prefix="/"),
        )
        table["virtual_hosts"][0] |= xds.filter_overrides(tenant=override("host"))
        mesh.plane.put(table)
        found = [await headers(mesh, path=path) for path in ("/a.A/B", "/b.A/B", "/c.A/B")]
        assert found == [["route"], ["cluster"], ["host"]]


async def test_a_filter_that_merges_gets_the_settings_of_listener_and_override(autojump_clock):
    def merge(base, override):
        return base | {"value": base["header"] + override["suffix"]}

    filters = {TENANT: FilterType(Tenant, override=OverrideType("my.pkg.PerRoute", merge=merge))}
    async with Mesh.run(1) as mesh:
        listen(mesh, tenant())
        mesh.route(xds.route("cart") | xds.filter_overrides(tenant=xds.typed_struct("my.pkg.PerRoute", suffix="!")))
        assert await headers(mesh, filters=filters) == ["x-tenant!"]


async def test_a_disabled_filter_runs_where_an_override_configures_it(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, tenant(disabled=True))
        assert await headers(mesh) == []
        mesh.route(xds.route("cart") | xds.filter_overrides(tenant=override("on")))
        assert await headers(mesh) == ["on"]


async def test_a_filter_config_wraps_an_override_and_says_whether_it_is_optional(autojump_clock):
    def wrapped(config, **more):
        return {"@type": WRAPPER, "config": config, **more}

    async with Mesh.run(1) as mesh:
        listen(mesh, tenant())
        unknown = xds.typed_struct("my.pkg.Unknown")
        both = xds.filter_overrides(tenant=wrapped(override("wrapped")), other=wrapped(unknown, is_optional=True))
        mesh.route(xds.route("cart") | both)
        assert await headers(mesh) == ["wrapped"]
        mesh.route(xds.route("cart") | xds.filter_overrides(other=wrapped(unknown)))
        assert "typed_per_filter_config[other]" in await refusal(mesh)


async def test_an_override_for_a_filter_that_no_listener_has_is_valid_and_checked(autojump_clock):
    def parse(fields):
        return {"header": fields["header"]}

    async with Mesh.run(1) as mesh:
        listen(mesh)
        filters = {TENANT: FilterType(Tenant, parse)}
        mesh.route(xds.route("cart") | xds.filter_overrides(tenant=override("unused")))
        assert await headers(mesh, filters=filters) == []
        mesh.route(xds.route("cart") | xds.filter_overrides(tenant=xds.typed_struct(TENANT)))
        place = "routes[0].typed_per_filter_config[tenant].value[xds.type.v3.TypedStruct].value[my.pkg.Tenant]"
        assert f"""{place} error:filter "tenant": KeyError: 'header'""" in await refusal(mesh, filters)


async def test_the_listeners_type_is_no_override_of_a_filter_with_another_type_for_overrides(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, tenant())
        mesh.route(xds.route("cart") | xds.filter_overrides(tenant=override("x")))
        filters = {TENANT: FilterType(Tenant, override=OverrideType("my.pkg.PerRoute"))}
        assert "an override of this filter is a my.pkg.PerRoute" in await refusal(mesh, filters)
        filters = {TENANT: FilterType(Tenant, override=None)}
        assert "my.pkg.Tenant does not support overrides" in await refusal(mesh, filters)


async def test_the_type_of_an_override_is_none_for_the_listener(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, xds.custom_filter("tenant", "my.pkg.PerRoute"))
        filters = {TENANT: FilterType(Tenant, override=OverrideType("my.pkg.PerRoute"))}
        assert "unsupported filter type" in await refusal(mesh, filters)


async def test_an_override_of_another_own_filters_type_is_left_out_with_a_warning(autojump_clock, caplog):
    filters = {TENANT: FilterType(Tenant), "my.pkg.Other": FilterType(Tenant)}
    async with Mesh.run(1) as mesh:
        listen(mesh, tenant())
        mesh.route(xds.route("cart") | xds.filter_overrides(tenant=xds.typed_struct("my.pkg.Other", header="y")))
        assert await headers(mesh, filters=filters) == ["tenant"]
    assert 'typed_per_filter_config["tenant"] has the type my.pkg.Other' in caplog.text


# -- registration


@pytest.mark.parametrize(
    ("filters", "error", "text"),
    [
        ({TENANT: Tenant}, TypeError, r"http_filters\['my.pkg.Tenant'\] is a FilterType, as in FilterType\(MyFilter\)"),
        ({"type.googleapis.com/my.pkg.A": FilterType(Tenant)}, ValueError, "follows the last slash of its type URL"),
        ({"": FilterType(Tenant)}, ValueError, "is no name of a configuration"),
        (
            {"envoy.extensions.filters.http.router.v3.Router": FilterType(Tenant)},
            ValueError,
            "there is an HTTP filter for 'envoy.extensions.filters.http.router.v3.Router' already",
        ),
        ({"envoy.config.route.v3.FilterConfig": FilterType(Tenant)}, ValueError, "already"),
        (
            {"a.A": FilterType(Tenant, override=OverrideType("a.B")), "a.B": FilterType(Tenant)},
            ValueError,
            r"http_filters\['a.B'\]: there is an HTTP filter for 'a.B' already",
        ),
        ({"a.A": FilterType(Tenant, message=Struct)}, ValueError, "the message for 'a.A' is a google.protobuf.Struct"),
    ],
)
async def test_a_bad_registration_is_refused_when_the_channel_or_client_opens(filters, error, text):
    async with Mesh.run(0) as mesh:
        with pytest.raises(error, match=text):
            await mesh.channel(http_filters=filters).__aenter__()
        with pytest.raises(error, match=text):
            await open_xds_client(bootstrap=xds.bootstrap(PLANE), http_filters=filters).__aenter__()


async def test_channels_of_a_shared_client_have_its_filters_and_no_others(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, tenant())
        seen = keep_metadata(mesh)
        async with (
            open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network, http_filters=TENANT_FILTER) as shared,
            mesh.channel(bootstrap=None, xds=shared) as one,
            mesh.channel(bootstrap=None, xds=shared) as other,
        ):
            await ask(one)
            await ask(other)
            assert [each.all("x-tenant") for each in seen] == [["tenant"], ["tenant"]]
            with pytest.raises(ValueError, match="http_filters are the xDS client's when it is shared; give them to"):
                await mesh.channel(bootstrap=None, xds=shared, http_filters={}).__aenter__()


async def test_a_target_without_a_control_plane_takes_no_filters():
    async with Mesh.run(0) as mesh:
        with pytest.raises(ValueError, match=r"http_filters cannot be used with the target 'dns:///shop"):
            await mesh.channel("dns:///shop:1", bootstrap=None, http_filters=TENANT_FILTER).__aenter__()
