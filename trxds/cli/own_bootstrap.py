"""The bootstrap of a channel that a command opens for itself, beside the program whose bootstrap it is."""

from __future__ import annotations

from msgspec import structs

from trxds.client.shared_xds_client import BootstrapSource, load_settings
from trxds.resolver.target_uri import is_xds
from trxds.xds.bootstrap import CacheSettings


def own_bootstrap(target: str, bootstrap: BootstrapSource) -> BootstrapSource:
    """Return the bootstrap of an `xds:` target without its cache on disk; of any other target, the bootstrap as it is.

    The cache is the program's: one that another user has written is refused by the program. `BootstrapError` if the
    bootstrap is bad.
    """
    return structs.replace(load_settings(bootstrap), cache=CacheSettings()) if is_xds(target) else bootstrap
