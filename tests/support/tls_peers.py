"""Peers of TLS, and what proves them."""

from __future__ import annotations

import ssl

import trustme


def server_context(ca: trustme.CA, *names: str, alpn: str = "h2") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*names).configure_cert(context)
    context.set_alpn_protocols([alpn])
    return context


def wants_certificates(ca: trustme.CA) -> ssl.SSLContext:
    context = server_context(ca, "cart.example")
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context
