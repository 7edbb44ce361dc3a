"""What the demo calls kept and what broken."""

from __future__ import annotations

from trxds.cli.demo.verdict import Record, judge


def a_quiet_record() -> Record:
    """Two sessions, four RPCs, nothing happened."""
    record = Record(expected=4)
    for session, host in (("s1", "blue-1"), ("s2", "blue-2")):
        record.met_in_session(session, host, at=1.0)
        record.met_in_session(session, host, at=2.0)
    return record


def test_sessions_that_stay_keep_the_promise() -> None:
    assert judge(a_quiet_record()).holds


def test_a_session_may_leave_a_host_that_was_removed() -> None:
    record = a_quiet_record()
    record.expected = 5
    record.removed_at["blue-1"] = 3.0
    record.met_in_session("s1", "blue-2", at=3.1)
    verdict = judge(record)
    assert verdict.holds
    assert "  s1: blue-1 -> blue-2, because blue-1 was removed" in verdict.lines


def test_a_session_that_leaves_before_the_removal_breaks_the_promise() -> None:
    record = a_quiet_record()
    record.expected = 5
    record.removed_at["blue-1"] = 3.0
    record.met_in_session("s1", "blue-2", at=2.9)
    assert judge(record).broken == (
        "1 session left a host that was still there (1 time), the first: s1, blue-1 -> blue-2",
    )


def test_a_session_on_a_removed_host_breaks_the_promise() -> None:
    record = a_quiet_record()
    record.removed_at["blue-1"] = 1.5
    assert judge(record).broken == ("sessions still on a removed host: s1",)


def test_a_single_failed_rpc_breaks_the_promise() -> None:
    record = a_quiet_record()
    record.expected = 5
    record.failed("s1", "UNAVAILABLE: no host")
    assert judge(record).broken == ("1 RPC failed, the first: s1: UNAVAILABLE: no host",)


def test_missing_rpcs_and_missing_steps_break_the_promise() -> None:
    record = a_quiet_record()
    record.expected = 6
    record.steps_left.append("the control plane restarts")
    assert judge(record).broken == ("4 RPCs ended, 6 were meant to", "did not happen: the control plane restarts")
