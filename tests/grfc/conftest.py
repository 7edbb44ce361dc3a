"""Authorities of two SPIFFE trust domains, and their bundle map."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pki import Authority, bundle, bundle_map


@pytest.fixture(scope="module")
def shop() -> Authority:
    return Authority("shop")


@pytest.fixture(scope="module")
def bank() -> Authority:
    return Authority("bank")


@pytest.fixture
def map_file(shop, bank, tmp_path: Path) -> Path:
    path = tmp_path / "map.json"
    path.write_bytes(bundle_map({"shop.example": bundle(shop), "bank.example": bundle(bank)}))
    return path
