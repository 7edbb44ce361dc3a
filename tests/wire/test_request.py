from __future__ import annotations

import math
import tomllib
from pathlib import Path

from trxds.wire.request import USER_AGENT, Request

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_user_agent_has_the_projects_version() -> None:
    version = tomllib.loads(PYPROJECT.read_text())["project"]["version"]
    assert USER_AGENT.decode() == f"grpc-python-trxds/{version}"


def test_pseudo_headers_come_first_and_metadata_last() -> None:
    headers = Request("/s/M", "shop", [(b"user", b"7")]).headers()
    assert [key for key, _ in headers[:4]] == [b":method", b":scheme", b":path", b":authority"]
    assert headers[-1] == (b"user", b"7")


def test_the_timeout_is_what_is_left() -> None:
    assert Request("/s/M", "shop", deadline=12.5).timeout(now=10) == [(b"grpc-timeout", b"2500000u")]
    assert Request("/s/M", "shop", deadline=9.0).timeout(now=10) == [(b"grpc-timeout", b"1n")]
    assert Request("/s/M", "shop", deadline=math.inf).timeout(now=10) == []
