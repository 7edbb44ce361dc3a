"""Which TLS sessions are kept for the next connection."""

from __future__ import annotations

import ssl
import time
from typing import Any

import pytest
from support.pki import Authority

from trxds.transport.certificates import CertificateFiles, client_context
from trxds.transport.file_content import FileContent
from trxds.transport.spiffe_bundles import BundleMap
from trxds.transport.tls_sessions import MAX_SESSIONS, TlsSessions

LATER = 2.0**40  # seconds since 1970


@pytest.fixture
def session() -> Any:
    """A stand-in: nothing here looks into one."""
    return object()


def test_a_session_is_used_once(session) -> None:
    sessions, context = TlsSessions(), client_context(CertificateFiles())
    sessions.keep("a", context, session, LATER)
    assert [sessions.take("a", context), sessions.take("a", context)] == [session, None]


def test_a_session_of_another_context_is_not_resumed(session) -> None:
    sessions = TlsSessions()
    sessions.keep("a", client_context(CertificateFiles()), session, LATER)
    assert sessions.take("a", client_context(CertificateFiles())) is None


def test_the_oldest_session_goes_beyond_the_limit(session) -> None:
    sessions, context = TlsSessions(), client_context(CertificateFiles())
    for number in range(MAX_SESSIONS):
        sessions.keep(str(number), context, session, LATER)
    sessions.keep("0", context, session, LATER)
    sessions.keep("one more", context, session, LATER)
    assert [sessions.take(name, context) for name in ("0", "1", "2")] == [session, None, session]


def test_no_session_is_kept_that_would_pass_over_a_check(session) -> None:
    """Those of a program's own context are not ours to judge."""
    lists = client_context(CertificateFiles(crls=FileContent(Authority().crl_pem())))
    bundles = client_context(CertificateFiles())
    bundles.bundles = BundleMap("of map.json", {})
    sessions = TlsSessions()
    for context in (lists, bundles, ssl.create_default_context()):
        sessions.keep("a", context, session, LATER)
        assert sessions.take("a", context) is None


def test_a_session_is_not_resumed_after_the_end_of_the_peers_certificate(session) -> None:
    sessions, context = TlsSessions(), client_context(CertificateFiles())
    sessions.keep("a", context, session, time.time() + 60)
    sessions.keep("b", context, session, time.time() - 1)
    assert [sessions.take("a", context), sessions.take("b", context)] == [session, None]
