"""The bootstrap of a channel that a command opens for itself, beside the program whose bootstrap it is."""

from __future__ import annotations

import os

from msgspec import structs

from trxds.client.shared_xds_client import BootstrapSource, load_settings
from trxds.core.authority import is_ip
from trxds.resolver.target_uri import is_xds
from trxds.xds.bootstrap import FILE_VARIABLE, INLINE_VARIABLE, CacheSettings


def own_bootstrap(target: str, bootstrap: BootstrapSource) -> BootstrapSource:
    """Return the bootstrap of an `xds:` target without its cache on disk; of any other target, the bootstrap as it is.

    The cache is the program's: one that another user has written is refused by the program. `BootstrapError` if the
    bootstrap is bad.
    """
    return structs.replace(load_settings(bootstrap), cache=CacheSettings()) if is_xds(target) else bootstrap


def xds_advice(target: str, bootstrap: BootstrapSource) -> str:
    """Return what to write for a name without a scheme that was meant for the bootstrap's control plane.

    Empty if there is a scheme, a port or a path, if it is an IP address, or without a bootstrap.
    """
    has_bootstrap = bootstrap is not None or os.environ.get(FILE_VARIABLE) or os.environ.get(INLINE_VARIABLE)
    if not has_bootstrap or ":" in target or "/" in target or is_ip(target):
        return ""
    return f"{target} is a name for DNS; if the control plane of the bootstrap has it, write xds:///{target}"
