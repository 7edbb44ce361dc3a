"""The bytes of a resource in the same order in each process.

protobuf writes the entries of maps in an order that differs from process to process, unless it is told otherwise, and
an Any holds bytes that were written before. So a simulation would not be the same again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pool, message_factory

from trxds.resources import protos


def canonical(packed: protos.AnyProto) -> protos.AnyProto:
    """Return the Any with the same content, its maps sorted, also those of Anys inside of it."""
    try:
        descriptor = descriptor_pool.Default().FindMessageTypeByName(packed.type_url.rpartition("/")[2])
    except KeyError:
        return packed  # a type that nobody here knows
    message = message_factory.GetMessageClass(descriptor).FromString(packed.value)
    for each in nested_anys(message):
        each.value = canonical(each).value
    return protos.AnyProto(type_url=packed.type_url, value=message.SerializeToString(deterministic=True))


def nested_anys(message: Any) -> Iterator[Any]:
    """Yield the Anys in a message, and none of those in them."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            nested = value.values() if field.message_type.fields_by_name["value"].message_type else ()
        else:
            nested = value if _is_repeated(field) else (value,)
        for each in nested:
            if each.DESCRIPTOR.full_name == "google.protobuf.Any":
                yield each
            else:
                yield from nested_anys(each)


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
