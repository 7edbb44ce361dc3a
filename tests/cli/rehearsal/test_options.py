"""`trxds rehearse`: its files and options."""

import re

import pytest
from support.rehearsal_files import HOSTS, SMALL, resources

from trxds.cli.quantities import parse_seconds, parse_share
from trxds.cli.rehearsal.host_options import parse_behaviours
from trxds.cli.rehearsal.plan import HostBehaviour


def test_an_error_in_a_file_ends_the_command_with_its_line(files, run):
    done = run(files("before", resources(*HOSTS)), files("after", "- name: cart\n"), *SMALL)
    assert done.exit_code == 1 and "after.yaml: line 1: " in done.stderr and "nothing is rehearsed" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing changes: give a second file, or steps by --script"),
        (["AFTER", "--expect", "movd<=5%"], "there is no 'movd'; there are moved, failed,"),
        (["AFTER", "--expect", "moved=5%"], "'moved=5%' is no expectation"),
        (["AFTER", "--expect", "moved<=x"], "'x' is no number"),
        (["AFTER", "--expect", "settled<=5%"], "cannot be a percentage"),
        (["AFTER", "--expect", " "], "nothing is expected"),
        (["AFTER", "--hosts", "latency=5q"], "'5q' is no time, such as 500ms"),
        (["AFTER", "--hosts", "speed=5"], "'speed=5' is none of latency=..., p99=..., errors=..., capacity=..."),
        (["AFTER", "--hosts", "10.9.9.9:1 latency=5ms"], "10.9.9.9:1 is no endpoint in any of the files"),
        (["AFTER", "--hosts", "latency=5ms p99=1ms"], "is no number of seconds from the latency"),
        (["AFTER", "--timeout", "soon"], "'soon' is no time"),
        (["AFTER", "--timeout", "0"], "'0' is no time above 0"),
        (["AFTER", "--rps", "nan"], "'nan' is no finite number"),
        (["AFTER", "--target", "shop"], "--target: target 'shop' does not have the scheme xds; write xds:///NAME"),
        (["AFTER", "--target", "xds://east/shop"], "--target: target 'xds://east/shop': authority 'east' is not in"),
        (["AFTER", "--method", "foo"], "method path 'foo' is not of the form /package.Service/Method"),
        (["AFTER", "--method", ""], "'--method': it is empty; write /package.Service/Method"),
        (["AFTER", "--method", "/a/\udcff"], "'--method': it is no UTF-8 text"),
        (["AFTER", "--method", "/a/B 'c"], "no closing quotation; write /package.Service/Method, and KEY:VALUE behind"),
        (["AFTER", "--method", "/a/B user"], "/a/B: KEY:VALUE number 1 has no colon; write KEY:VALUE"),
        (["AFTER", "--method", "/a/B te:7"], "/a/B: KEY:VALUE number 1: metadata key 'te' belongs to the protocol"),
        (["AFTER", "-H", "user"], "'--metadata': -H number 1 has no colon; write KEY:VALUE"),
        (["AFTER", "-H", "@/nowhere"], "-H @/nowhere: No such file or directory"),
        (["AFTER", "--keepalive", "5s"], "must be 10s or more"),
        (["AFTER", "AFTER", "--script", "AFTER"], "with --script there is one file"),
    ],
)
def test_a_wrong_option_is_a_usage_error(files, run, arguments, message):
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    done = run(before, *(after if each == "AFTER" else each for each in arguments))
    assert done.exit_code == 2
    assert message in re.sub(r"\s*\n\s*", " ", done.stderr)


@pytest.mark.parametrize("arguments", [["BAD", "GOOD"], ["GOOD", "--script", "BAD"], ["GOOD", "--script", "STEPS"]])
def test_a_file_that_is_no_utf_8_is_named(files, run, tmp_path, arguments):
    bad = tmp_path / "bad.yaml"
    bad.write_bytes(b"- {name: \xff}\n")
    names = {
        "BAD": str(bad),
        "GOOD": files("before", resources(*HOSTS)),
        "STEPS": files("steps", "- {at: 5, replace: bad.yaml}\n"),
    }
    done = run(*(names.get(each, each) for each in arguments))
    assert done.exit_code == 1 and f"{bad}: not UTF-8 text (invalid start byte at byte 9)" in done.stderr


def test_a_file_without_a_listener_for_clients_needs_a_target(files, run):
    before, after = files("before", resources(*HOSTS)[1:]), files("after", resources(*HOSTS)[1:])
    done = run(before, after)
    assert done.exit_code == 2 and "name one by --target xds:///NAME" in done.stderr


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("1m30s", 90), ("2", 2), ("1.5h", 5400)])
def test_times_are_written_with_their_units(text, seconds):
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["-1", "1m30", "s", "", "5 parsecs", "nan", "99999999h"])
def test_a_text_that_is_no_time_is_an_error(text):
    with pytest.raises(ValueError, match="is no time"):
        parse_seconds(text)


@pytest.mark.parametrize("text", ["101%", "-1", "x", "nan"])
def test_a_text_that_is_no_share_is_an_error(text):
    with pytest.raises(ValueError, match="is no share"):
        parse_share(text)


def test_a_host_may_behave_otherwise_than_the_others():
    texts = ["latency=5ms", "10.0.1.1:50051 errors=2%", "capacity=10", "10.0.1.1:50051 p99=1s"]
    everybody, single = parse_behaviours(texts, HOSTS)
    assert everybody == HostBehaviour(0.005, None, 0.0, 10)
    assert single == {HOSTS[0]: HostBehaviour(0.005, 1.0, 0.02, 10)}
