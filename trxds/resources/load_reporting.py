"""Whether a cluster's load is to be reported, to whom, and with which of its hosts' own metrics (A27, A64, A85)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .config_source import is_self
from .problems import Problems

if TYPE_CHECKING:
    from .context import ParseContext


@dataclass(frozen=True, slots=True)
class LoadReporting:
    """`server` is the one that sent the cluster. `metrics` are names like `cpu_utilization`, `named_metrics.*`."""

    server: Hashable
    metrics: frozenset[str] = frozenset()


def load_reporting(message: Any, context: ParseContext, problems: Problems) -> LoadReporting | None:
    """None if the cluster does not ask for it."""
    if not message.HasField("lrs_server"):
        return None
    # A27: no other server than the one that sent the cluster may be named, so none other has to be dialled.
    if not is_self(message.lrs_server):
        problems.at("lrs_server").add("ConfigSource is not self")
    return LoadReporting(context.server, frozenset(message.lrs_report_endpoint_metrics))
