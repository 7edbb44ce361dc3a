"""A few seeds of the simulator, so that it does not rot; `make simulate` runs many."""

import dataclasses
import os
import subprocess
import sys
from collections import Counter

import pytest

from simulate import mutants, run, tally
from simulate.mutants import MUTANTS
from simulate.storm import Result
from simulate.storm import run as run_seed

pytestmark = pytest.mark.slow


def test_a_seed_finds_nothing_and_is_the_same_run_again():
    first, again = (run_seed(7, minutes=6) for _ in range(2))
    assert first.violations == ()
    assert first.digest == again.digest
    assert first.counts["calls"] > 20
    assert first.counts["picks of sessions"] > 5


def test_a_seed_is_the_same_run_in_another_process_with_another_seed_of_hashes():
    program = "from simulate.storm import run; print(run(42, minutes=4).digest)"
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": os.pathsep.join(sys.path)}
    there = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert there == f"{run_seed(42, minutes=4).digest}\n"


@pytest.mark.parametrize("seed", [1, 2])
def test_another_seed_finds_nothing_either(seed):
    assert run_seed(seed, minutes=5).violations == ()


def test_the_simulator_notices_a_session_that_moves(monkeypatch):
    monkeypatch.setattr("trxds.lb.override_host.policy.OverridePicker._session_host", lambda *args: None)
    found = (violation for seed in range(5) for violation in run_seed(seed, minutes=5).violations)
    assert any(violation.startswith("a_session_with_a_usable_host_meets_it") for violation in found)


def test_every_mutant_fits_the_code_once(tmp_path):
    for mutant in MUTANTS:
        place = tmp_path / "trxds" / mutant.file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text((tally.ROOT / "trxds" / mutant.file).read_text("utf-8"), "utf-8")
        mutants.mutate(mutant, tmp_path)
        compile(place.read_text("utf-8"), mutant.file, "exec")


def test_a_mutant_that_does_not_fit_is_an_error(tmp_path):
    (tmp_path / "trxds").mkdir()
    (tmp_path / "trxds" / "file.py").write_text("pass", "utf-8")
    with pytest.raises(ValueError, match=r"'bug' fits 0 times into file\.py"):
        mutants.mutate(mutants.Mutant("bug", "file.py", "fail", ""), tmp_path)


def test_seeds_are_one_or_a_range():
    assert run.seeds("7") == range(7, 8)
    assert run.seeds("0-99") == range(100)


@pytest.mark.parametrize("text", ["", "x", "9-1", "1-", "-3"])
def test_other_seeds_are_an_error(text, capsys):
    if text == "1-":
        assert run.seeds(text) == range(1, 2)
        return
    with pytest.raises(SystemExit):
        run.main([f"--seeds={text}"])
    assert f"{text!r} is neither a seed nor a range as in 0-99" in capsys.readouterr().err


def test_a_failing_seed_is_shown_with_the_command_that_repeats_it(monkeypatch, capsys):
    monkeypatch.setattr(run, "run_one", lambda seed, minutes: dataclasses.replace(RESULT, seed=seed))
    assert run.main(["--seeds", "42", "--minutes", "3"]) == 1
    shown = capsys.readouterr().out
    assert "an invariant, at 1 s: it does not hold" in shown
    assert "again: make simulate SEEDS=42 MINUTES=3" in shown


RESULT = Result(0, ("an invariant, at 1 s: it does not hold",), (), Counter(calls=3), 600.0, "digest")


def test_an_interrupted_run_goes_on_where_it_was(monkeypatch, tmp_path, capsys):
    ran = []

    def run_all(todo, *rest):
        ran.append(todo)
        return iter([dataclasses.replace(RESULT, seed=seed, violations=()) for seed in todo])

    monkeypatch.setattr(run, "DONE", tmp_path)
    monkeypatch.setattr(run, "_results", run_all)
    assert run.main(["--seeds", "0-2"]) == run.main(["--seeds", "0-4"]) == 0
    assert ran == [[0, 1, 2], [3, 4]]
    assert "3 seeds were run before" in capsys.readouterr().out


def test_the_tally_adds_a_run_to_the_row_of_its_version():
    page = "# x\n<!-- tally -->\nold\n|---|\n<!-- end of the tally -->\nend\n"
    page = tally.add(page, tally.Row("abc", 1000, 10.0, 5, 1))
    page = tally.add(page, tally.Row("abc", 500, 2.5, 5, 0))
    page = tally.add(page, tally.Row("def", 1, 0.2, 3, 0))
    assert tally.read(page) == [tally.Row("abc", 1500, 12.5, 10, 1), tally.Row("def", 1, 0.2, 3, 0)]
    assert page.startswith("# x\n") and page.endswith("end\n")


def test_the_page_has_a_tally():
    assert tally.read(tally.PAGE.read_text("utf-8")) is not None
