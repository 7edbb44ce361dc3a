"""The program's own HTTP filters as parsers see them (A39): the program's code checks their configurations.

Such a configuration is a TypedStruct, which any control plane can send, or a message that the program has compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, structs

from . import protos
from .extension import Extension
from .filter_config import FilterConfig, HttpFilterType

if TYPE_CHECKING:
    from google.protobuf.message import Message

ParseFilterSettings: TypeAlias = Callable[[Any], Any]
"""The program's own code, which makes settings of a TypedStruct's fields, or of a message."""

MAX_SHOWN = 200  # characters of settings in an explanation


class CustomFilterConfig(FilterConfig, frozen=True, eq=False):
    """The configuration of a filter of the program's own; `name` is that of the filter.

    `settings` are the result of the program's parser. Those of an override stand beside `base`, the listener's.
    """

    name: str
    config_type: str
    override_type: str
    settings: Any
    base: Any = None
    is_override: bool = False

    def applied_to(self, base: FilterConfig) -> FilterConfig:
        """Return this override together with the listener's settings, which the program may merge."""
        return structs.replace(self, base=base.settings) if isinstance(base, CustomFilterConfig) else self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CustomFilterConfig) or self._key != other._key:
            return False
        try:
            return bool(self.settings == other.settings and self.base == other.base)
        except Exception:  # the program's own `==`, for example of an array
            return False

    def __hash__(self) -> int:
        # Without the settings, which may be a dict; a listener has few filters of one name and type.
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, str, bool]:
        return self.name, self.config_type, self.is_override

    def __str__(self) -> str:
        try:
            text = str(self.settings)
        except Exception:  # the program's own `str`
            text = f"a {type(self.settings).__name__}"
        return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


class CustomFilterParser(Struct, frozen=True):
    """The parser of one message of a filter: `parse` gets the fields of a TypedStruct, or a `message`.

    Without `parse` these are the settings.
    """

    type_name: str
    parse: ParseFilterSettings | None
    message: type[Message] | None = None

    def settings(self, config: Extension) -> tuple[Any, bool]:
        """Return the settings, and whether there are any; if not, the reason is noted as a problem."""
        whose = f'filter "{config.filter_name}": '
        try:
            source = self._source(config)
            if source is None:
                return None, False
            return source if self.parse is None else self.parse(source), True
        except protos.DecodeError:
            config.problems.add(f"{whose}could not parse {self.type_name}")
        except protos.json_format.ParseError as error:
            config.problems.add(f"{whose}the struct is no {self.type_name}: {error}")
        except Exception as error:  # the program's code may raise anything: that rejects the resource, not the channel
            config.problems.add(f"{whose}{type(error).__name__}: {error}")
        return None, False

    def _source(self, config: Extension) -> Any:
        if self.message is None:
            if config.fields is None:
                remedy = "send an xds.type.v3.TypedStruct of that type, or give the filter type the message's class"
                config.problems.add(f'filter "{config.filter_name}": the client has no message of that type; {remedy}')
            return config.fields
        message = self.message()
        if config.value is not None:
            message.ParseFromString(config.value)
        else:
            protos.json_format.ParseDict(dict(config.fields or {}), message)
        return message


def custom_filter_type(of_listener: CustomFilterParser, of_override: CustomFilterParser | None) -> HttpFilterType:
    """Return the type for the registry of filters; without `of_override` routes cannot override the filter."""
    config_type = of_listener.type_name
    override_type = of_override.type_name if of_override is not None else ""

    def parse(parser: CustomFilterParser, is_override: bool, config: Extension) -> CustomFilterConfig | None:
        settings, is_valid = parser.settings(config)
        if not is_valid:
            return None
        return CustomFilterConfig(config.filter_name, config_type, override_type, settings, is_override=is_override)

    parse_config = partial(parse, of_listener, False)
    if of_override is None:
        return HttpFilterType(config_type, parse_config)
    return HttpFilterType(config_type, parse_config, override_type, partial(parse, of_override, True))
