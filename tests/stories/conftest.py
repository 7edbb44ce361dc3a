"""The PEM files of the certificate authority of `tests/conftest.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme


@pytest.fixture
def pem(ca: trustme.CA, tmp_path: Path):
    """Write the PEM files of a CA and of a client, and return their paths."""
    leaf = ca.issue_cert("web.example")
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    leaf.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    leaf.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    return lambda name: str(tmp_path / f"{name}.pem")
