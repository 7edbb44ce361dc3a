"""What a channel logs of its configuration: one line at INFO for each that comes into force, with what has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, assert_never

from trxds.core.limited_log import LimitedLog
from trxds.core.plural import plural
from trxds.core.resource_status import ResourceStatus

from .snapshot import AggregateConfig, ClusterConfig, ClusterError, ClusterResult, ConfigError, XdsConfig

_log = logging.getLogger("trxds.resolver")

_SHOWN = 5  # resources, or addresses, in one line

_Parts: TypeAlias = dict[str, tuple[object, str]]  # by name: the content, and what the line says of it


class ConfigLog:
    """The log of one channel's configurations; `target` is how its lines begin."""

    def __init__(self, target: str, now: Callable[[], float]) -> None:
        self._target = target
        self._now = now
        self._lines = LimitedLog(_log)
        self._before: XdsConfig | None = None
        self._addresses: tuple[str, ...] | None = None

    def config_in_force(self, config: XdsConfig | ConfigError) -> None:
        """Log the resources that differ from those of the configuration before; an error has a warning of its own."""
        if isinstance(config, ConfigError) or not _log.isEnabledFor(logging.INFO):
            return
        before, self._before = self._before, config
        if before is None:
            count, labels = plural(len(config.clusters), "cluster"), [label for _, label in _parts(config, {}).values()]
            self._info("the first configuration is in force, with %s: %s", count, shown(labels))
            return
        parts, known = _parts(config, before.clusters), _parts(before, config.clusters)
        changed = [label for name, (content, label) in parts.items() if name not in known or known[name][0] != content]
        changed += [f"no {name} any more" for name in sorted(known.keys() - parts.keys())]
        if changed:
            self._info("a new configuration is in force: %s", shown(changed))

    def addresses_in_force(self, addresses: tuple[str, ...], note: str) -> None:
        """Log the addresses of a target without a control plane, if they have changed."""
        if addresses != self._addresses:
            self._addresses = addresses
            names = shown(addresses) if addresses else note
            self._info("%s in force: %s", plural(len(addresses), "address", "addresses"), names)

    def service_config_in_force(self) -> None:
        """Log that a target has another service config: its resolver's, or the channel's again."""
        self._info("another service config is in force")

    def _info(self, text: str, *args: object) -> None:
        self._lines.info(self._now(), f"%s: {text}", self._target, *args)


def shown(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    every = tuple(names)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return f"{', '.join(every[:_SHOWN])}{more}"


def _parts(config: XdsConfig, same: Mapping[str, ClusterResult]) -> _Parts:
    """Return the resources of a configuration, without those of clusters that are the same objects in `same`."""
    listener, routes, parts = config.listener, config.routes_standing, _Parts()
    _add(parts, ResourceStatus("LDS", listener.name), listener)
    _add(parts, routes, (config.virtual_host, listener if routes.kind == "LDS" else None))
    for name, cluster in config.clusters.items():
        if same.get(name) is not cluster:
            _add_cluster(parts, name, cluster)
    return parts


def _add(parts: _Parts, standing: ResourceStatus, content: object) -> None:
    parts[f'{standing.kind} resource "{standing.name}"'] = content, standing.change


def _add_cluster(parts: _Parts, name: str, cluster: ClusterResult) -> None:
    own = ResourceStatus("CDS", name)
    match cluster:
        case ClusterConfig(_, endpoints, note, standing, of_endpoints):
            # By status and not by content, which may be large: it is a new one with each content.
            _add(parts, standing or own, standing)
            if of_endpoints is not None:
                _add(parts, of_endpoints, of_endpoints)
            else:
                label = f'endpoints of cluster "{name}"'
                parts[label] = note or endpoints, f"{label} ({note})" if note else label
        case AggregateConfig(leaves=leaves, note=note):  # the leaves are among the configuration's clusters
            _add(parts, own, ([leaf.cluster.name for leaf in leaves], note))
        case ClusterError(status=status):
            _add(parts, own, status.message)
        case _ as never:
            assert_never(never)
