"""The coarse model of large meshes agrees with the real client, and docs/scale.md says what it computes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.random import default_rng

from . import figures, model, real
from .check import Compared, compare_bytes, compare_load, compare_reconnects, compare_update, policies
from .run import PAGE
from .sizes import VARIANTS, AdsMesh, Mesh, Policy, RollingUpdate

SMALL = Mesh(10, 10)


@pytest.mark.parametrize("policy", policies(10), ids=str)
def test_the_load_of_hosts_is_that_of_the_model(policy: Policy) -> None:
    _assert_agrees(compare_load(SMALL, policy))


@pytest.mark.parametrize("surge", [True, False])
def test_sessions_move_in_a_rolling_update_as_in_the_model(surge: bool) -> None:
    _assert_agrees(compare_update(SMALL, 40, RollingUpdate(5, surge)))


@pytest.mark.parametrize("outage", [0.0, 10.0, 60.0])
def test_clients_come_back_to_a_control_plane_as_in_the_model(outage: float) -> None:
    _assert_agrees(compare_reconnects(20, outage))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_control_plane_sends_the_bytes_of_the_model(variant: str) -> None:
    _assert_agrees(compare_bytes(AdsMesh(4, 5), 2, variant))


@pytest.mark.long
@pytest.mark.parametrize("policy", [Policy("random_subsetting", 10), Policy("pick_first")], ids=str)
def test_the_load_of_a_hundred_hosts_is_that_of_the_model(policy: Policy) -> None:
    _assert_agrees(compare_load(Mesh(100, 100), policy))


def test_a_model_without_jitter_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    jittered = model.reconnects
    monkeypatch.setattr(model, "reconnects", lambda *args: jittered(*args, jitter=0.0))
    _assert_differs(compare_reconnects(20, 10.0))


def test_a_model_with_another_policy_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = real.load_by_host(SMALL, Policy("pick_first"), 0)
    monkeypatch.setattr(real, "load_by_host", lambda *_: found)
    _assert_differs(compare_load(SMALL, Policy("least_request")))


def test_a_model_whose_restart_is_free_with_delta_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "ads_bytes", lambda mesh, event, variant: 0)
    _assert_differs(compare_bytes(AdsMesh(1, 2), 1, "delta"))


def test_every_host_of_a_ring_has_a_share() -> None:
    random = default_rng(0)
    load = model.load_by_host(Mesh(10_000, 100), Policy("ring_hash", ring=1024), random)
    assert load.min() > 0
    assert load.sum() == 600_000


def test_the_busiest_window_counts_times_that_lie_close_together() -> None:
    assert figures.busiest_window(np.array([0.0, 1.0, 1.05, 1.09, 1.2]), 0.1) == 3


@pytest.mark.parametrize(
    "name",
    [pytest.param("load", marks=pytest.mark.long), "updates", "bytes", "bytes of one cluster", "reconnects"],
)
def test_the_page_has_the_numbers_of_the_model(name: str) -> None:
    """Within 10 %: another version of numpy may draw other numbers."""
    table: Callable[[], list[figures.Row]] = _TABLES[name]
    page = PAGE.read_text("utf-8")
    written = page.partition(f"<!-- {name} -->\n")[2].partition(f"\n<!-- end of {name} -->")[0].splitlines()[2:]
    computed = [*table()[1:]]
    assert len(written) == len(computed)
    for line, row in zip(written, computed, strict=True):
        for cell, expected in zip(line.strip("| ").split(" | "), row, strict=True):
            _assert_close(cell, expected)


_TABLES: dict[str, Callable[[], list[figures.Row]]] = {
    "load": figures.load_table,
    "updates": figures.update_table,
    "bytes": lambda: figures.bytes_table(figures.ADS_MESHES[0]),
    "bytes of one cluster": lambda: figures.bytes_table(figures.ADS_MESHES[1]),
    "reconnects": figures.reconnect_table,
}


def _assert_close(written: str, computed: str) -> None:
    number = re.compile(r"[\d.,]+")
    assert number.sub("", written) == number.sub("", computed)
    for left, right in zip(number.findall(written), number.findall(computed), strict=True):
        assert float(left.replace(",", "")) == pytest.approx(float(right.replace(",", "")), rel=0.1, abs=0.05)


def _assert_agrees(compared: Iterator[Compared]) -> None:
    assert [str(each) for each in compared if not each.agrees] == []


def _assert_differs(compared: Iterator[Compared]) -> None:
    assert [each for each in compared if not each.agrees] != []
