"""The service shop.Cart, with a method of each kind, as protobuf's generated modules would have it."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass

_file = descriptor_pb2.FileDescriptorProto(name="shop_service.proto", package="shop", syntax="proto3")
for _name in ("Item", "Size"):
    _file.message_type.add(name=_name).field.add(name="sku", number=1, type=9, label=1)
_service = _file.service.add(name="Cart")
for _name, _client, _server in (
    ("Add", False, False),
    ("List", False, True),
    ("Fill", True, False),
    ("Talk", True, True),
    ("import", False, False),
):
    _service.method.add(
        name=_name,
        input_type=".shop.Item",
        output_type=".shop.Item",
        client_streaming=_client,
        server_streaming=_server,
    )
_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file)

CART = _pool.FindServiceByName("shop.Cart")
Item = GetMessageClass(_pool.FindMessageTypeByName("shop.Item"))
Size = GetMessageClass(_pool.FindMessageTypeByName("shop.Size"))
