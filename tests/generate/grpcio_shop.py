"""shop.v1.Cart by grpcio, in a process of its own: prints its address, serves until stdin is closed."""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from other import types_pb2 as other
from shop.v1 import cart_pb2, types_pb2

Item = cart_pb2.Item


def served(kind, function):
    """With messages of the classes that protoc made, by whatever the function returns or yields."""
    return kind(function, Item.FromString, lambda reply: reply.SerializeToString())


def main():
    methods = {
        "Add": served(grpc.unary_unary_rpc_method_handler, lambda item, _: Item(sku=item.sku + "!")),
        "List": grpc.unary_stream_rpc_method_handler(
            lambda _, __: (Item.Line(number=number) for number in range(3)),
            response_serializer=Item.Line.SerializeToString,
        ),
        "Fill": served(
            grpc.stream_unary_rpc_method_handler, lambda items, _: other.Item(skus=[item.sku for item in items])
        ),
        "Talk": served(
            grpc.stream_stream_rpc_method_handler,
            lambda items, _: (Item.Line.Note(text=item.sku.upper()) for item in items),
        ),
        "import": served(grpc.unary_unary_rpc_method_handler, lambda item, _: types_pb2.Size(width=len(item.sku))),
    }
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("shop.v1.Cart", methods)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(0).wait()


if __name__ == "__main__":
    main()
