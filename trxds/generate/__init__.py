"""Typed stubs from .proto files: `protoc-gen-trxds`, a plugin for protoc, and `trxds generate`, which runs protoc.

Both call `stubs.stubs_of`, a pure function from descriptors to texts. A stub is thin: it names each method of a
service once, with its types, and leaves the rest to `channel.unary_unary` and its siblings. So the parameters of a
call are defined in one place.
"""
