"""The messages of the xDS API, by name (`protos.Cluster`), and what turns them into values and JSON into them.

A channel without a control plane uses none, or those of load reports (`orca_messages.py`). So they are imported when
the first one is used. A channel to an `xds:` target uses them when it is opened; `trxds.preload` imports them before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

_OF_LOAD_REPORTS = frozenset({"DecodeError", "OrcaLoadReport", "OrcaLoadReportRequest"})

if TYPE_CHECKING:
    from .generated_messages import *  # noqa: F403  (type checkers see each name, and its absence)
else:

    def __getattr__(name: str) -> Any:
        """Import the messages, and keep them here: this is called for the first of them only."""
        # All of them take 0.1 s, those of load reports a fifth of that.
        if name in _OF_LOAD_REPORTS:
            from . import orca_messages as imported
        else:
            from . import generated_messages as imported

        messages = {each: value for each, value in vars(imported).items() if not each.startswith("_")}
        if name not in messages:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)
        globals().update(messages)
        return messages[name]


TYPE_PREFIX = "type.googleapis.com/"


def type_name(message_class: Any) -> str:
    """Return `envoy.config.cluster.v3.Cluster`, for example: the part of a type URL after its last slash."""
    return str(message_class.DESCRIPTOR.full_name)


def pack(message: Any) -> Any:
    """Return the message in an Any, with the same bytes each time."""
    from .generated_messages import AnyProto

    packed = AnyProto()
    packed.Pack(message, deterministic=True)
    return packed


def plain(struct: Any) -> dict[str, Any]:
    """Return a google.protobuf.Struct in JSON's types; a number without a fraction is an int."""
    return {name: _plain(value) for name, value in struct.fields.items()}


def _plain(value: Any) -> Any:
    # json_format raises for NaN and infinity, which JSON does not have.
    match value.WhichOneof("kind"):
        case "struct_value":
            return plain(value.struct_value)
        case "list_value":
            return [_plain(each) for each in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "string_value" | "bool_value" as kind:
            return getattr(value, kind)
    return None


def from_json(resource: Mapping[str, Any]) -> Any:
    """Return a resource in proto-JSON form, its type in `@type`, as an Any.

    `ValueError` names the field that is wrong: `field:endpoints[0].lb_endpoints error:...`.
    """
    from .generated_messages import AnyProto, Cluster, json_format

    try:
        return json_format.ParseDict(dict(resource), AnyProto())
    except (json_format.ParseError, LookupError, ArithmeticError) as error:  # the last two leak out of it
        raise ValueError(_where_and_what(str(error))) from None
    except AttributeError:  # json_format calls `split` on `@type` even if it is no text
        raise ValueError(f"field:@type error:must be a text such as {TYPE_PREFIX}{type_name(Cluster)}") from None


_NESTING = re.compile(r"Failed to parse (\S+) field: ")
_UNKNOWN = re.compile(r'has no field named "(\S+)"')
_PATH = re.compile(r" at \"?Any\.?(\S*?)\"?$")


def _where_and_what(text: str) -> str:
    """Return field and error, from a text that has "Failed to parse" once for each level."""
    error = _NESTING.sub("", text).partition("\n")[0].rstrip(".")
    path = _PATH.search(error)
    field = path[1] if path else ".".join(_NESTING.findall(text))
    if not field and (unknown := _UNKNOWN.search(error)):
        field = unknown[1]
    return f"field:{field or '@type'} error:{_PATH.sub('', error)}"
