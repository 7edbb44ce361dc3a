"""The bytes of a resource do not depend on the order of maps, which differs from process to process."""

from google.protobuf.struct_pb2 import Struct

from trxds.resources import protos
from trxds.testing.canonical_any import canonical, nested_anys

KEYS = [f"key{number}" for number in range(50)]


def cluster(keys):
    """A cluster with a map, and one with a map in an Any."""
    message = protos.Cluster(name="cart")
    struct = Struct()
    struct.update(dict.fromkeys(keys, 1))
    message.metadata.filter_metadata["x"].CopyFrom(struct)
    option = message.typed_extension_protocol_options["y"]
    option.type_url, option.value = "type.googleapis.com/google.protobuf.Struct", struct.SerializeToString()
    return protos.AnyProto(
        type_url="type.googleapis.com/envoy.config.cluster.v3.Cluster", value=bytes(message.SerializeToString())
    )


def test_maps_have_one_order_wherever_they_are():
    first, second = canonical(cluster(KEYS)), canonical(cluster(KEYS[::-1]))
    assert first.value == second.value
    assert protos.Cluster.FromString(first.value) == protos.Cluster.FromString(canonical(first).value)
    assert len(protos.Cluster.FromString(first.value).metadata.filter_metadata["x"].fields) == 50


def test_the_anys_of_a_message_are_found_in_lists_maps_and_fields():
    message = protos.Cluster.FromString(cluster(KEYS).value)
    message.transport_socket.typed_config.type_url = "a"
    message.filters.add().typed_config.type_url = "b"
    found = sorted(each.type_url for each in nested_anys(message))
    assert found == ["a", "b", "type.googleapis.com/google.protobuf.Struct"]


def test_an_unknown_type_is_left_as_it_is():
    unknown = protos.AnyProto(type_url="type.googleapis.com/my.Unknown", value=b"\x01\x02")
    assert canonical(unknown) == unknown
