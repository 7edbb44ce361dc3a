"""A servicer is an object with a handler for each method of a protobuf service, by the method's name.

It may leave methods out: a test needs few of them. So a misspelled name would not be noticed, and all of a servicer is
checked before it serves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from keyword import iskeyword
from types import FunctionType, MethodType
from typing import Any, Protocol

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from .server_arguments import takes_arguments

_FUNCTIONS = (FunctionType, MethodType, classmethod, staticmethod, partial)


def handler_names(methods: Iterable[str]) -> dict[str, str]:
    """Return the name of each method's handler in Python: the method's own, with an underscore where Python needs one.

    `import` is `import_`; of a name that begins with two underscores they go to the end, as a class would change it.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for method in methods:
        name = method if not method.startswith("__") else method.lstrip("_") + "_"
        # Two methods may differ in underscores alone, so the name may be taken.
        while iskeyword(name) or name in taken:
            name += "_"
        names[method] = name
        taken.add(name)
    return names


def functions_of(service: ServiceDescriptor, servicer: object) -> Mapping[str, Callable[..., Any]]:
    """Return the servicer's functions by the names of their methods; `TypeError` for what cannot serve `service`."""
    names = handler_names(method.name for method in service.methods)
    found = {method: _attribute(servicer, method, name) for method, name in names.items()}
    functions = {method: function for method, function in found.items() if function is not None}
    missing = [name for method, name in names.items() if method not in functions or _is_inherited(servicer, name)]
    _check_spelling(service, servicer, frozenset(names.values()), missing)
    if names and not functions:
        methods = ", ".join(names.values())
        raise TypeError(f"{_name(servicer)} has no method of {service.full_name}; its methods are {methods}")
    for method in service.methods:
        if method.name in functions:
            _check_function(method, functions[method.name], servicer)
    return functions


def _attribute(servicer: object, method: str, name: str) -> Any:
    function = getattr(servicer, name, None)
    # A keyword can still be an attribute, by `setattr`.
    return getattr(servicer, method, None) if function is None and iskeyword(method) else function


def _is_inherited(servicer: object, name: str) -> bool:
    """Return whether a method is only the default of a Protocol, as `trxds generate` writes them."""
    if name in getattr(servicer, "__dict__", ()):
        return False
    definer = next((each for each in type(servicer).__mro__ if name in vars(each)), None)
    return definer is not None and Protocol in definer.__bases__


# -- names


def _check_spelling(
    service: ServiceDescriptor, servicer: object, names: frozenset[str], missing: Iterable[str]
) -> None:
    """Raise `TypeError` for functions that look like handlers, and whose names resemble methods without a handler."""
    plain = {_plain(name): name for name in missing}
    for name in _unknown_handlers(servicer, names):
        close = get_close_matches(_plain(name), plain, n=1)
        if close:
            raise TypeError(
                f"{_name(servicer)}.{name} is no method of {service.full_name}; did you mean {plain[close[0]]}? "
                f"(If it is no handler, call it _{name}.)"
            )


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _unknown_handlers(servicer: object, names: frozenset[str]) -> Iterator[str]:
    for name in dir(servicer):
        # Without `getattr`, which would run properties.
        static = inspect.getattr_static(servicer, name, None)
        if name not in names and not name.startswith("_") and isinstance(static, _FUNCTIONS):
            function = getattr(servicer, name)
            if _is_async(function) and takes_arguments(function, 2):
                yield name


# -- functions


def _check_function(method: MethodDescriptor, function: Any, servicer: object) -> None:
    name = f"{_name(servicer)}.{method.name}"
    if not callable(function):
        raise TypeError(f"{name} is {type(function).__name__}, not a function")
    if not takes_arguments(function, 2):
        if isinstance(servicer, type):
            raise TypeError(f"{_name(servicer)} is a class; pass an object of it")
        first = "an iterator of requests" if method.client_streaming else "a request"
        raise TypeError(f"{name}{inspect.signature(function)} has to take {first} and the call")
    # Found before the server serves, and not by the first call that fails.
    if method.server_streaming and inspect.iscoroutinefunction(function):
        raise TypeError(f"{name} does not yield; a method with a stream of replies yields each")
    if not method.server_streaming and inspect.isasyncgenfunction(function):
        raise TypeError(f"{name} yields; a method with one reply returns it")


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _name(servicer: object) -> str:
    return servicer.__qualname__ if isinstance(servicer, type) else type(servicer).__qualname__
