"""This file makes a channel's subchannel pool with its credentials: plaintext, TLS, or each cluster's own (A29)."""

from __future__ import annotations

import ssl
from collections.abc import Hashable, Mapping
from functools import partial
from random import Random
from urllib.parse import unquote

from trxds.core.authority import host_of
from trxds.core.connection_limit import ConnectionLimit
from trxds.core.observers import Observers
from trxds.resources.peer_names import wrong_peer
from trxds.resources.upstream_tls import UpstreamTls
from trxds.transport.certificates import CertificateFiles
from trxds.transport.connect import Network
from trxds.transport.connection_age import ConnectionAge
from trxds.transport.health_watch import HealthCheck
from trxds.transport.keepalive import Keepalive
from trxds.transport.options import WireOptions
from trxds.transport.pool import SubchannelPool
from trxds.transport.tls import NextContext, TlsNetwork, context_source, credentials_network

from .credentials import ChannelCredentials, XdsCredentials


def make_pool(
    network: Network,
    credentials: ChannelCredentials,
    authority: str,
    providers: Mapping[str, CertificateFiles],
    random: Random,
    options: WireOptions,
    keepalive: Keepalive | None,
    observers: Observers,
    health_check: HealthCheck | None,
    max_connections: int,
    max_connections_cap: int,
    age: ConnectionAge | None,
) -> SubchannelPool:
    """Return the pool; hosts prove the name of `authority` unless another is configured."""
    # A target's characters beyond ASCII are percent-encoded in its authority; certificates have none of them (IDNA).
    name = unquote(host_of(authority))
    limits = ConnectionLimit(max_connections), max_connections_cap, age
    network_for = None
    if isinstance(credentials, XdsCredentials):
        network_for, credentials = ClusterNetworks(network, providers).network_for, credentials.fallback
    known = credentials_network(network, credentials, name)
    return SubchannelPool(known, options, random, network_for, keepalive, observers, health_check, *limits)


class ClusterNetworks:
    """`ClusterNetworks` makes the networks of clusters with TLS (A29); clusters with equal files share a context."""

    def __init__(self, network: Network, providers: Mapping[str, CertificateFiles]) -> None:
        self._network = network
        self._providers = providers
        self._contexts: dict[CertificateFiles, NextContext] = {}

    def network_for(self, security: Hashable) -> Network:
        """Return the network with a cluster's TLS configuration."""
        assert isinstance(security, UpstreamTls)
        # A29: `wrong_peer` checks the SANs that the control plane lists; the name of the target is not checked.
        context = partial(self._context, security)
        return TlsNetwork(self._network, context, security.sni or None, partial(wrong_peer, security))

    async def _context(self, security: UpstreamTls) -> ssl.SSLContext:
        files = self._files(security)
        if files not in self._contexts:
            self._contexts[files] = context_source(files, check_hostname=False)
        return await self._contexts[files]()

    def _files(self, security: UpstreamTls) -> CertificateFiles:
        """Return the files of a TLS configuration; `OSError` for a provider without them."""
        # Missing roots must not be replaced by others, such as the system's, so they are an error.
        roots = self._providers.get(security.roots, CertificateFiles())
        own = self._providers.get(security.identity, CertificateFiles())
        if security.roots and not roots.roots and not roots.spiffe_bundle_map:
            raise OSError(
                f"certificate provider {security.roots!r} has no ca_certificate_file; add it to the bootstrap"
            )
        if security.identity and not own.certificate:
            raise OSError(
                f"certificate provider {security.identity!r} has no certificate_file; add it to the bootstrap"
            )
        interval = min(roots.refresh_interval, own.refresh_interval)
        # A87: a provider with a bundle map returns that, and its ca_certificate_file is ignored.
        bundles = roots.spiffe_bundle_map
        return CertificateFiles("" if bundles else roots.roots, own.certificate, own.private_key, interval, bundles)
