"""The types of HTTP filters as parsers see them: how a filter's configuration is read, and where it may be (A39)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from .extension import Extension


class FilterConfig(Struct, frozen=True):
    """The base class of filter configurations; the client finds the filter by this class.

    A configuration is a `config_type` in the listener and an `override_type` in routes; both are message names.
    """

    if TYPE_CHECKING:  # a subclass has them as constants or as fields

        @property
        def config_type(self) -> str: ...
        @property
        def override_type(self) -> str: ...

    def applied_to(self, base: FilterConfig) -> FilterConfig:
        """Return the configuration of a filter with this override of `base`, which replaces it entirely (A39)."""
        return self


class HttpFilterType(Struct, frozen=True):
    """One type of filter; the registry has it under the names of its configuration messages.

    A parser returns None after it has noted a problem. A `terminal` filter has to end the chain, and no other may.
    `on_clients` is False for filters that only servers run.
    """

    config_type: str
    parse: Callable[[Extension], FilterConfig | None]
    # A39: some filters have one type for both, some have two, and some have no overrides.
    override_type: str | None = None
    parse_override: Callable[[Extension], FilterConfig | None] | None = None
    terminal: bool = False
    on_clients: bool = True
