"""The symbols of a schema by the names that users type: /shop.Cart/Add, shop.Cart/Add, shop.Cart.Add, shop.Cart."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from trxds.cli.exit_codes import USAGE

from .describe import describe, template
from .json_replies import as_json
from .schema import CallError, Schema, Symbol, find_symbol

_MAX_SHOWN = 100  # characters of a name


async def find(schema: Schema, text: str) -> Symbol:
    """Return the symbol of that name. Raises `CallError`, which names one that resembles it."""
    name = text.removeprefix("/")
    service, slash, method = name.rpartition("/")
    symbol = await _load(schema, service if slash else name)
    if symbol is None and not slash and "." in name:
        # Some servers know a method only by its service.
        service, _, method = name.rpartition(".")
        symbol = await _load(schema, service)
        slash = "." if isinstance(symbol, ServiceDescriptor) else ""
        symbol = symbol if slash else None
    if symbol is None:
        raise await _unknown(schema, service if slash else name)
    if not slash:
        return symbol
    if not isinstance(symbol, ServiceDescriptor):
        raise CallError(f"{service} is no service; write METHOD as package.Service/Method", USAGE)
    if method not in symbol.methods_by_name:
        known = [each.name for each in symbol.methods]
        raise CallError(
            f"{service} has no method {_shown(method)}; it has {', '.join(known)}{_near(method, known)}", USAGE
        )
    return symbol.methods_by_name[method]


def as_method(symbol: Symbol) -> MethodDescriptor:
    """Return the symbol if it is a method; `CallError` for another."""
    if isinstance(symbol, ServiceDescriptor):
        methods = ", ".join(method_name(each) for each in symbol.methods)
        raise CallError(f"{symbol.full_name} is a service, and -d is for a method; it has {methods}", USAGE)
    if not isinstance(symbol, MethodDescriptor):
        raise CallError(f"{symbol.full_name} is no method; --describe shows what it is", USAGE)
    return symbol


async def names(schema: Schema, text: str) -> list[str]:
    """Return the services, or the methods of a service, in the form in which METHOD takes them."""
    if not text:
        return await schema.services()
    symbol = await find(schema, text)
    if isinstance(symbol, MethodDescriptor):
        return [method_name(symbol)]
    if not isinstance(symbol, ServiceDescriptor):
        raise CallError(f"{symbol.full_name} is no service; --describe shows what it is", USAGE)
    return [method_name(method) for method in symbol.methods]


async def description(schema: Schema, text: str) -> list[str]:
    """Return the lines that describe a symbol, or all services."""
    lines: list[str] = []
    for name in [text] if text else await schema.services():
        symbol = await find(schema, name)
        lines += ["", *describe(symbol)]
        if isinstance(symbol, MethodDescriptor):
            lines += ["", f"// -d '{as_json(template(symbol.input_type), None)}'"]
    return lines[1:]


def method_name(method: MethodDescriptor) -> str:
    """Return the method as METHOD: `shop.Cart/Add`."""
    return f"{method.containing_service.full_name}/{method.name}"


async def _load(schema: Schema, name: str) -> Symbol | None:
    return find_symbol(schema.pool, name) if await schema.load(name) else None


async def _unknown(schema: Schema, name: str) -> CallError:
    known = await schema.services()
    return CallError(f"there is no {_shown(name)}; without METHOD the services are listed{_near(name, known)}", USAGE)


def _shown(name: str) -> str:
    rest = len(name) - _MAX_SHOWN
    return repr(name) if rest <= 0 else f"{name[:_MAX_SHOWN]!r} and {rest} characters more"


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
