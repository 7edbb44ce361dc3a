"""Errors about a caller's mistakes name the thing, its place, and the remedy."""

import pytest
import trio
from google.protobuf.wrappers_pb2 import Int32Value, StringValue
from support.bad_peers import names
from support.mesh import METHOD, PLANE, Mesh, ask, bidi

import trxds
from trxds import BootstrapError, StatusCode
from trxds.testing import MemoryNetwork
from trxds.testing import resources as xds


class NoNames:
    """A network that connects and does not resolve."""

    connect = MemoryNetwork.connect

    def __repr__(self):
        return "<NoNames>"


class TestTargets:
    @pytest.mark.parametrize(
        ("target", "what"),
        [
            ("http://shop", "unknown scheme 'http'; trxds knows xds, dns, ipv4, ipv6, unix, unix-abstract"),
            ("", "write dns:///HOST"),
            ("shop:http", "'http' is no port; write a number"),
            ("xds:", "names no service; write xds:///NAME"),
            ("xds:///", "names no service; write xds:///NAME"),
            ("xds:///shop/", "names no service; write xds:///NAME"),
        ],
    )
    async def test_a_malformed_target_is_a_value_error_before_anything_runs(self, target, what):
        with pytest.raises(ValueError) as refused:
            async with trxds.open_channel(target, bootstrap=xds.bootstrap(PLANE)):
                pass
        names(str(refused.value), f"target {target!r}", what)

    @pytest.mark.parametrize(
        ("target", "option", "why"),
        [
            ("dns:///shop:80", {"bootstrap": xds.bootstrap(PLANE)}, "bootstrap cannot be used with the target"),
            ("xds:///shop", {"service_config": "{}"}, "service_config cannot be used with the target"),
            ("dns:///shop:80", {"service_config": '{"methodConfig": {}}'}, "service config: methodConfig"),
            ("dns:///shop:80", {"service_config": "{"}, "service config: no valid JSON"),
            ("dns:///shop:80", {"authority": "a b"}, "authority 'a b' is no host"),
            (
                "dns:///shop:80",
                {"idle_timeout": 0},
                "idle_timeout is 0; it must be a number of seconds above 0",
            ),
        ],
    )
    async def test_an_invalid_option_of_open_channel_is_an_error_before_anything_runs(self, target, option, why):
        with pytest.raises(ValueError) as refused:
            async with trxds.open_channel(target, **option):
                pass
        names(str(refused.value), why)

    @pytest.mark.parametrize(
        ("target", "option", "why"),
        [
            ("dns:///shop:80", {"admin": 9901}, "admin is an address such as '127.0.0.1:9901', or a trxds.admin.Admin"),
            ("dns:///shop:80", {"telemetry": None}, "telemetry is an object such as trxds.otel.telemetry(...)"),
            ("dns:///shop:80", {"authority": []}, "authority is a text such as host or host:port, not list"),
            ("dns:///shop:80", {"interceptors": print}, "interceptors is a list of functions, as in [add_user], not"),
            (
                "dns:///shop:80",
                {"interceptors": [None]},
                "each of interceptors is a function of a call and the",
            ),
            ("dns:///shop:80", {"policies": ["mine"]}, "policies is a mapping of a name to a PolicyType, not list"),
            ("dns:///shop:80", {"resolvers": [print]}, "resolvers is a mapping of a scheme to a resolver, not list"),
            ("dns:///shop:80", {"http_proxy": 5}, "http_proxy is a text such as 'http://proxy.example:3128', not int"),
            ("xds:///shop", {"http_filters": [5]}, "http_filters is a mapping of a type's name to a FilterType"),
            ("xds:///shop", {"cache_dir": 5}, "cache_dir is the path of a directory, not int"),
            ("dns:///shop:80", {"network": MemoryNetwork}, "connect and resolve, such as MemoryNetwork(), not <class"),
            ("xds:///shop", {"network": "lan"}, "connect and resolve, such as MemoryNetwork(), not 'lan'"),
            ("xds:///shop", {"network": NoNames()}, "connect and resolve, such as MemoryNetwork(), not <NoNames>"),
            ("xds:///shop", {"xds": 5}, "xds is a client of trxds.open_xds_client, or None, not int"),
        ],
    )
    async def test_an_option_of_another_type_is_a_type_error_that_names_it(self, target, option, why):
        plane = {"bootstrap": xds.bootstrap(PLANE)} if target.startswith("xds") and "xds" not in option else {}
        with pytest.raises(TypeError) as refused:
            async with trxds.open_channel(target, **plane, **option):
                pass
        names(str(refused.value), why)

    async def test_a_compression_of_another_type_is_unknown(self):
        with pytest.raises(ValueError, match=r"compression \[\] is unknown; write one of"):
            async with trxds.open_channel("dns:///shop:80", compression=[]):
                pass

    async def test_a_target_with_an_unknown_authority_is_an_error(self):
        with pytest.raises(BootstrapError) as refused:
            async with trxds.open_channel("xds://fleet/shop", bootstrap=xds.bootstrap(PLANE)):
                pass
        names(str(refused.value), "'xds://fleet/shop'", "'fleet'", "add it there", "xds:///shop")

    async def test_the_error_for_a_missing_bootstrap_names_the_ways_to_pass_one(self, monkeypatch):
        monkeypatch.delenv("GRPC_XDS_BOOTSTRAP", raising=False)
        monkeypatch.delenv("GRPC_XDS_BOOTSTRAP_CONFIG", raising=False)
        with pytest.raises(BootstrapError) as refused:
            async with trxds.open_channel("xds:///shop"):
                pass
        names(str(refused.value), "GRPC_XDS_BOOTSTRAP", "GRPC_XDS_BOOTSTRAP_CONFIG", "bootstrap=")

    async def test_the_error_for_a_malformed_bootstrap_has_the_path_of_the_field(self):
        with pytest.raises(BootstrapError) as refused:
            async with trxds.open_channel("xds:///shop", bootstrap={"xds_servers": [{}]}):
                pass
        names(str(refused.value), "xds_servers[0].server_uri")


class TestCallers:
    """Mistakes of callers are TypeError or ValueError, and nothing is sent."""

    @pytest.mark.parametrize(
        ("metadata", "error", "parts"),
        [
            ([("bad key", "x")], ValueError, ["metadata[0]", "a blank at position 3", "letters"]),
            ([("grpc-timeout", "1S")], ValueError, ["'grpc-timeout'", "choose another"]),
            ([("id-bin", "x")], TypeError, ["'id-bin'", "must be bytes"]),
            ([("id", b"x")], TypeError, ["'id'", "end the key in -bin"]),
            ([("id", 7)], TypeError, ["'id'", "int"]),
            ([("id", "ü")], ValueError, ["'id'", "not ASCII at position 0", "-bin"]),
            ([("id",)], TypeError, ["metadata[0]", "tuple", "pair of key and value"]),
            (["id"], TypeError, ["metadata[0]", "str", "pair of key and value"]),
            ({"id": "7"}, TypeError, ["metadata[0]", "str", "pair of key and value"]),
            ([(b"id", "7")], TypeError, ["metadata[0]", "tuple", "pair of key and value"]),
        ],
    )
    async def test_bad_metadata_of_a_call_is_an_error_that_names_the_key(self, metadata, error, parts, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(error) as refused:
                await ask(channel, metadata=metadata)
            assert mesh.servers[mesh.hosts[0]].calls == []
        names(str(refused.value), *parts)

    @pytest.mark.parametrize("path", ["shop.Cart/Add", "/shop.Cart", "/shop.Cart/Add/More", ""])
    async def test_a_malformed_method_path_is_a_value_error(self, path, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(ValueError) as refused:
                channel.method(path)
        names(str(refused.value), repr(path), "/package.Service/Method")

    @pytest.mark.parametrize(
        ("type_", "request_", "parts"),
        [
            (None, "text", ["bytes", "str"]),
            (None, 7, ["bytes", "int"]),
            (StringValue, Int32Value(value=7), ["google.protobuf.StringValue", "google.protobuf.Int32Value"]),
            (StringValue, {"value": "x"}, ["google.protobuf.StringValue", "dict"]),
        ],
    )
    async def test_a_request_of_the_wrong_type_is_a_type_error(self, type_, request_, parts, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(TypeError) as refused:
                await channel.method(METHOD, type_)(request_)
            assert mesh.servers[mesh.hosts[0]].calls == []
        names(str(refused.value), METHOD, *parts)

    async def test_a_request_of_the_wrong_type_in_a_stream_is_a_type_error_and_resets_it(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(TypeError, match=METHOD):
                async with bidi(channel).open() as call:
                    await call.send("text")
            await trio.sleep(1)
            (seen,) = mesh.servers[mesh.hosts[0]].calls
            assert seen.status.code is StatusCode.CANCELLED

    async def test_calling_a_method_of_another_kind_is_a_type_error(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(TypeError) as refused:
                await bidi(channel)(b"")
        names(str(refused.value), METHOD, "method.open")

    async def test_a_stub_without_the_method_is_an_attribute_error(self, autojump_clock):
        service = xds_service()
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(AttributeError) as refused:
                channel.stub(service).Lost  # noqa: B018
        names(str(refused.value), service.full_name, "Lost", service.methods[0].name)


def xds_service():
    """Return a service that has a descriptor."""
    from envoy.service.discovery.v3 import ads_pb2

    return ads_pb2.DESCRIPTOR.services_by_name["AggregatedDiscoveryService"]


class TestWrongTypes:
    """Errors about arguments of a wrong type name them and the right type."""

    async def test_a_target_of_the_wrong_type_is_a_type_error(self):
        with pytest.raises(TypeError, match="target is a text such as dns:///host:port or xds:///NAME, not 5"):
            async with trxds.open_channel(5):
                pass

    async def test_a_bootstrap_of_the_wrong_type_is_a_type_error(self):
        with pytest.raises(TypeError, match="bootstrap is a path, JSON text or a mapping, not list"):
            async with trxds.open_channel("xds:///shop", bootstrap=[]):
                pass

    async def test_a_bootstrap_string_with_json_is_parsed_and_no_path(self):
        with pytest.raises(trxds.BootstrapError, match="xds_servers"):
            async with trxds.open_channel("xds:///shop", bootstrap="{}"):
                pass

    async def test_a_stub_of_anything_but_a_service_descriptor_is_a_type_error(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(TypeError, match=r'as in pb2\.DESCRIPTOR\.services_by_name\["Greeter"\]'):
                channel.stub(5)

    async def test_a_timeout_of_the_wrong_type_is_a_type_error(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(TypeError, match="not nan"):
                await ask(channel, timeout=float("nan"))
