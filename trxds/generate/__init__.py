"""Typed stubs from .proto files: `protoc-gen-trxds`, a plugin for protoc, and `trxds generate`, which runs protoc.

Both end in `stubs.stubs_of`, a plain function from descriptors to texts. A stub is thin: it names each
method of a service once, with its types, and leaves the rest to `channel.unary_unary` and its siblings, so
that what a call can be given is known in one place.
"""
