"""`trxds rehearse --expect`: what holds, what does not, and what nobody knows."""

import re

import pytest
from support.rehearsal_files import HOSTS, SMALL, resources

from trxds.cli.rehearsal.expectations import QUANTITIES, parse_expectations
from trxds.testing import resources as xds


def test_a_share_is_of_all_sessions_and_of_the_calls_since_the_first_step():
    report = {
        "sessions": {"moved": 1, "total": 20, "by_host": {"before": HOSTS}},
        "calls": {"failed": 3, "after_the_change": 300},
        "settled_after": None,
    }
    verdicts = [each.check(report) for each in parse_expectations("moved<=5%, moved < 5% failed <= 1% settled<=10s")]
    assert [(each.text, each.found, each.holds) for each in verdicts] == [
        ("moved<=5%", "5%", True),
        ("moved<5%", "5%", False),
        ("failed<=1%", "1%", True),
        ("settled<=10s", "no number: it had not settled at the end", False),
    ]


def test_each_quantity_of_an_expectation_is_in_the_report(files, run):
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    expected = " ".join(f"{name}>=0" for name in QUANTITIES)
    assert run(before, after, *SMALL, "--expect", expected).exit_code == 0


def test_each_of_several_options_of_expectations_counts(files, run):
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    done = run(before, after, *SMALL, "--clients", "12", "--expect", "moved==0", "--expect", "failed==0")
    assert re.findall(r"^(holds|FAILS) +(\S+)", done.stdout, re.M) == [("FAILS", "moved==0"), ("holds", "failed==0")]
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("added_p99<=1e1", 10),
        ("added_p99<=10", 10),
        ("added_p99<=10ms", 10),
        ("added_p99<=1s", 1000),
        ("added_p99<=-2", -2),
    ],
)
def test_a_latency_is_in_milliseconds_unless_a_unit_says_otherwise(text, limit):
    (expectation,) = parse_expectations(text)
    assert expectation.limit == pytest.approx(limit)


# -- what was not measured


def without_sessions():
    return [xds.listener("shop", routes="r"), *resources(*HOSTS)[1:]]


@pytest.mark.parametrize(
    ("before", "after", "options"),
    [
        (without_sessions(), resources(*HOSTS), []),
        (resources(*HOSTS), resources(*HOSTS), ["--sessions", "0"]),
        (resources(*HOSTS), resources(), []),  # every call fails, so nobody knows where a session is
    ],
)
def test_that_no_session_moves_does_not_hold_if_none_could_be_seen_to_move(files, run, before, after, options):
    done = run(files("before", before), files("after", after), *SMALL, *options, "--expect", "moved==0")
    reason = "no number: no session had a host before the first step and a call that succeeded after it"
    assert f"FAILS        moved==0 (found {reason})" in done.stdout
    assert done.exit_code == 1


def test_that_no_call_fails_does_not_hold_if_there_was_none(files, run):
    before = files("before", resources(*HOSTS))
    done = run(before, before, "--clients", "1", "--rps", "0.01", "--after", "5s", "--expect", "failed==0")
    assert "FAILS        failed==0 (found no number: no call was made after the first step)" in done.stdout


@pytest.mark.parametrize("quantity", ["added_p50", "added_p99", "p50", "p99", "peak"])
def test_a_quantity_of_calls_does_not_hold_without_any(files, run, quantity):
    before, after = files("before", resources(*HOSTS)), files("after", resources())
    done = run(before, after, *SMALL, "--expect", f"{quantity}>=0")
    assert re.search(rf"^FAILS +{quantity}>=0 \(found no number: no ", done.stdout, re.M)


@pytest.mark.parametrize(("latency", "added"), [("0.5ms", "0 ms"), ("50ms", "99 ms")])
def test_latency_is_also_added_by_a_step_that_has_settled_at_once(files, run, tmp_path, latency, added):
    files("steps", [{"at": 10, "slow": "all", "latency": latency}])
    before = files("before", resources(HOSTS[0]))
    done = run(before, "--script", str(tmp_path / "steps.yaml"), *SMALL, "--expect", "added_p99<=1ms")
    assert f"added_p99<=1ms (found {added})" in done.stdout
    assert done.exit_code == (added != "0 ms")


@pytest.mark.parametrize(
    ("options", "untried"),
    [([], 0), (["--sessions", "9"], 1), (["--clients", "1", "--target", "xds:///shop", "--target", "xds:///x"], 1)],
)
def test_an_expectation_counts_the_notes_of_what_no_call_tries(files, run, options, untried):
    before = files("before", resources(*HOSTS))
    done = run(before, before, *SMALL, *options, "--expect", "untried==0")
    assert f"untried==0 (found {untried})" in done.stdout
    assert done.exit_code == untried


def test_a_name_that_dns_has_to_find_is_noted_and_tried_all_the_same(files, run):
    before = files("before", [*resources()[:2], xds.logical_dns("cart", "a.example", 443)])
    done = run(before, before, *SMALL, "--expect", "untried==0")
    assert "note: a.example is 198.18.0.1 in the rehearsal" in done.stdout
    assert done.exit_code == 0
