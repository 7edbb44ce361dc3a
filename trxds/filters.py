"""`trxds.filters` has the classes for a custom HTTP filter (A39); see `docs/writing-a-filter.md`.

async with trxds.open_channel(target, http_filters={"my.pkg.Filter": FilterType(MyFilter)}) as channel: ...
"""

from trxds.client.custom_filter import FilterType, OverrideType
from trxds.client.filter_protocol import (
    ExplainableFilter,
    Filter,
    FilterCall,
    FilterContext,
    FilterResult,
    Respond,
    Wait,
)
from trxds.lb.pick import Override, PickArgs
from trxds.resolver.pick_outcomes import FilterStep

__all__ = [
    "ExplainableFilter",
    "Filter",
    "FilterCall",
    "FilterContext",
    "FilterResult",
    "FilterStep",
    "FilterType",
    "Override",
    "OverrideType",
    "PickArgs",
    "Respond",
    "Wait",
]
