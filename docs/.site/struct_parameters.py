"""The reference shows the fields of msgspec's structs as the parameters of their classes, as those of dataclasses."""

from __future__ import annotations

from typing import Any

from griffe import Attribute, Class, Expr, Extension, Function, Module, Parameter, ParameterKind, Parameters


class StructParameters(Extension):
    def on_package(self, *, pkg: Module, **_: Any) -> None:
        add_constructors(pkg)


def add_constructors(scope: Module | Class) -> None:
    """Give each struct in a module or a class the `__init__` that msgspec makes from its fields."""
    for member in scope.members.values():
        if isinstance(member, Module | Class):
            add_constructors(member)
        if isinstance(member, Class) and any(is_struct(base) for base in member.bases):
            parameters = [Parameter("self", kind=ParameterKind.positional_or_keyword), *map(parameter, fields(member))]
            member.set_member("__init__", Function("__init__", parameters=Parameters(*parameters), parent=member))


def is_struct(base: str | Expr) -> bool:
    return isinstance(base, Expr) and base.canonical_path == "msgspec.Struct"


def fields(struct: Class) -> list[Attribute]:
    return [
        member
        for member in struct.members.values()
        if isinstance(member, Attribute) and "instance-attribute" in member.labels and "property" not in member.labels
    ]


def parameter(field: Attribute) -> Parameter:
    return Parameter(
        field.name, annotation=field.annotation, kind=ParameterKind.positional_or_keyword, default=field.value
    )
