"""A change is rehearsed before it is made: what the report says is what the change would do."""

import json

import pytest
import yaml
from click.testing import CliRunner

from trxds.cli.main import main
from trxds.cli.rehearsal import command
from trxds.cli.rehearsal.run import rehearse
from trxds.testing import resources as xds

HOSTS = [f"10.0.1.{number}:50051" for number in range(1, 4)]


@pytest.fixture
def story(tmp_path, monkeypatch):
    """Rehearses steps on a cluster of three hosts, whose sessions may stay on a draining one."""
    monkeypatch.setattr(command, "run_in_child", rehearse)  # another process takes a second

    def configuration(*hosts):
        return [
            xds.listener("shop", routes="r", filters=[xds.stateful_session()]),
            xds.routes("r", xds.route("cart")),
            xds.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"]),
            xds.endpoints("cart", xds.locality(*hosts)),
        ]

    (tmp_path / "before.yaml").write_text(yaml.safe_dump(configuration(*HOSTS)))
    (tmp_path / "after.yaml").write_text(yaml.safe_dump(configuration(*HOSTS[1:])))

    def run(*steps, expect, more=()):
        (tmp_path / "steps.yaml").write_text(yaml.safe_dump(list(steps)))
        files = [str(tmp_path / "before.yaml"), "--script", str(tmp_path / "steps.yaml")]
        options = ["--clients", "10", "--after", "20s", "--json", "--expect", expect, *more]
        done = CliRunner().invoke(main, ["rehearse", *files, *options])
        return done.exit_code, json.loads(done.stdout)

    return run


def test_to_remove_a_host_moves_its_sessions_and_to_drain_it_first_moves_none(story):
    status, report = story({"at": 10, "replace": "after.yaml"}, expect="moved==0")
    assert status == 1
    assert {each["from"] for each in report["sessions"]["why"]} == {HOSTS[0]}
    status, _ = story({"at": 10, "drain": HOSTS[0]}, expect="moved==0 failed==0")
    assert status == 0


def test_a_dead_control_plane_moves_no_session_and_fails_no_call(story):
    status, report = story({"at": 10, "stop": "control-plane", "for": 60}, expect="moved==0 failed==0")
    assert status == 0
    assert report["calls"]["after_the_change"] >= 800


def test_the_sessions_of_a_dead_host_move_once_and_stay_when_it_is_back(story):
    status, report = story({"at": 10, "kill": HOSTS[0], "for": 20}, expect="failed==0 moved<=50%")
    assert status == 0
    assert {(each["from"], each["reason"]) for each in report["sessions"]["why"]} == {(HOSTS[0], "not_ready")}
    assert (
        report["sessions"]["moves"] == report["sessions"]["moved"] == report["sessions"]["by_host"]["before"][HOSTS[0]]
    )
    assert HOSTS[0] not in report["sessions"]["by_host"]["after"]


def test_a_host_that_says_nothing_costs_its_sessions_their_calls(story):
    """Nobody is told that it is gone: without keepalive its sessions wait for their deadlines."""
    status, report = story({"at": 10, "vanish": HOSTS[0]}, expect="failed==0")
    assert status == 1
    (error,) = report["calls"]["errors"]
    assert error["code"] == "DEADLINE_EXCEEDED"
    assert report["sessions"]["moved"] == 0
    assert report["settled_after"] is None


def test_keepalive_finds_a_host_that_says_nothing(story):
    """After the time for the PING, 20 s for its answer and 20 s for a new connection the sessions move."""
    more = ["--after", "120s"]
    _, without = story({"at": 10, "vanish": HOSTS[0]}, expect="failed==0", more=more)
    _, found = story({"at": 10, "vanish": HOSTS[0]}, expect="failed==0", more=[*more, "--keepalive", "10s"])
    assert 0 < found["calls"]["failed"] < without["calls"]["failed"] / 2
    assert found["sessions"]["moved"] > without["sessions"]["moved"] == 0
