"""This file makes the networks of a channel's credentials: plaintext, TLS, or each cluster's own (A29)."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from urllib.parse import unquote

from trxds.core.authority import host_of
from trxds.resources.peer_names import wrong_peer
from trxds.resources.upstream_tls import UpstreamTls
from trxds.transport.certificates import CertificateFiles
from trxds.transport.connect import Network
from trxds.transport.tls import NextContext, TlsNetwork, context_source, credentials_network

from .credentials import ChannelCredentials, XdsCredentials


def host_networks(
    network: Network, credentials: ChannelCredentials, authority: str, providers: Mapping[str, CertificateFiles]
) -> tuple[Network, Callable[[Hashable], Network] | None]:
    """Return the network of the hosts, and the function for those of clusters with TLS of their own, if there are any.

    Hosts prove the name of `authority` unless another is configured.
    """
    # A target's characters beyond ASCII are percent-encoded in its authority; certificates have none of them (IDNA).
    name = unquote(host_of(authority))
    if not isinstance(credentials, XdsCredentials):
        return credentials_network(network, credentials, name), None
    return credentials_network(network, credentials.fallback, name), ClusterNetworks(network, providers).network_for


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
