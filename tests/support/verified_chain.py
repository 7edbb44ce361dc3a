"""What Python 3.13 made public, for the tests that run on older ones; trxds itself refuses there."""

from __future__ import annotations

import ssl

import pytest

_DER = 2  # _ssl.ENCODING_DER


def show_verified_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give `ssl.SSLObject` the method that it lacks before Python 3.13."""
    if not hasattr(ssl.SSLObject, "get_verified_chain"):

        def get_verified_chain(self) -> list[bytes]:
            return [each.public_bytes(_DER) for each in self._sslobj.get_verified_chain() or ()]

        monkeypatch.setattr(ssl.SSLObject, "get_verified_chain", get_verified_chain, raising=False)


def hide_verified_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this Python one that cannot show them."""
    monkeypatch.delattr(ssl.SSLObject, "get_verified_chain", raising=False)
