"""`trxds rehearse --script`: steps with their times."""

import json

import pytest
from support.rehearsal_files import HOSTS, SMALL, resources

from trxds.cli.rehearsal.script import read_script
from trxds.testing import resources as xds


def steps_of(text, read=lambda name: ()):
    return read_script(text, resources(*HOSTS), read)


def test_a_script_has_steps_in_the_order_of_their_times():
    script = steps_of(
        "- {at: 90, kill: [10.0.1.1:50051, 10.0.1.2:50051], for: 20s}\n"
        "- {at: 1m, restart: control-plane}\n"
        "- {at: 30s, fail: all, rate: 5%}\n"
    )
    assert not script.problems
    assert [(step.at, step.label, step.hosts, step.lasts, step.value) for step in script.steps] == [
        (30.0, "fail all for 5% of calls", tuple(HOSTS), None, 0.05),
        (60.0, "restart the control plane", (), 0.0, 0.0),
        (90.0, "kill 10.0.1.1:50051, 10.0.1.2:50051 for 20 s", tuple(HOSTS[:2]), 20.0, 0.0),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: must be a list of steps"),
        ("at: 1", "line 1: must be a list of steps"),
        ("- 5", "line 1: must be a step with `at` and an action"),
        ("- {", "line 1: no valid YAML"),
        ("- at: 5", "line 1: a step has one action, and this one has none; there are replace, drain,"),
        ("- {at: 5, kill: all, drain: all}", "has both kill and drain"),
        ("- at: 5\n  explode: all", "line 2: explode: is no action; there are replace,"),
        ("- kill: all", "line 1: the step has no `at`"),
        ("- at: 0\n  kill: all", "line 1: at: must be later than 0"),
        ("- at: soon\n  kill: all", "line 1: at: 'soon' is no time"),
        ("- at: 5\n  kill: 10.9.9.9:1", "kill: 10.9.9.9:1 is no endpoint in any of the files"),
        ("- at: 5\n  kill: []", "line 2: kill: must be an address, host:port, a list of them, or all"),
        ("- at: 5\n  slow: all", "line 2: slow: needs `latency`"),
        ("- at: 5\n  fail: all", "line 2: fail: needs `rate`"),
        ("- at: 5\n  fail: all\n  rate: 200%", "line 3: rate: '200%' is no share"),
        ("- at: 5\n  restart: cart", "line 2: restart: must be control-plane"),
        ("- at: 5\n  reset: all\n  for: 5", "line 3: for: reset is not undone; leave it out"),
        (
            "- at: 5\n  start: all",
            "line 2: start: 10.0.1.1:50051 is up at 5 s; start is for a host that kill",
        ),
        (
            "- {at: 5, kill: 10.0.1.1:50051, for: 5s}\n- {at: 10, start: 10.0.1.1:50051}",
            "line 2: start: 10.0.1.1:50051 is up at 10 s",
        ),
    ],
)
def test_a_problem_in_a_script_has_its_line(text, problem):
    found = steps_of(text)
    assert problem in str(found.problems[0]) and found.steps == ()


@pytest.mark.parametrize("address", [HOSTS[0], "10.0.2.1:50051"])
def test_a_host_of_several_addresses_drains_by_each_of_them(files, run, tmp_path, address):
    listed = resources(*HOSTS[:2])
    other = {"address": {"socket_address": {"address": "10.0.2.1", "port_value": 50051}}}
    listed[3]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["additional_addresses"] = [other]
    files("steps", [{"at": 10, "drain": address}])
    done = run(files("before", listed), "--script", str(tmp_path / "steps.yaml"), *SMALL, "--clients", "12", "--json")
    assert {each["from"] for each in json.loads(done.stdout)["sessions"]["why"]} == {HOSTS[0]}


def test_a_file_that_a_script_names_is_beside_the_script(files, run, tmp_path):
    before = files("before", resources(*HOSTS))
    files("after", resources(*HOSTS[2:]))
    files("steps", "- {at: 5, replace: after.yaml}\n- {at: 15, replace: other.yaml}\n")
    done = run(before, "--script", str(tmp_path / "steps.yaml"))
    assert done.exit_code == 1 and f"line 2: replace: there is no file {tmp_path}/other.yaml" in done.stderr


def test_each_action_of_a_script_does_what_it_says(files, run, tmp_path):
    """One step after the other, each undone before the next; what each did to calls shows that it happened."""
    before = resources(*HOSTS[:2])
    before[2] |= {"common_lb_config": {"override_host_status": {"statuses": ["HEALTHY", "DRAINING"]}}}
    script = [
        {"at": 10, "drain": HOSTS[0], "for": 10},
        {"at": 30, "kill": HOSTS[0], "for": 10},
        {"at": 60, "vanish": HOSTS[1], "for": 10},
        {"at": 90, "partition": HOSTS[1], "for": 10},
        {"at": 120, "fail": "all", "rate": "100%", "for": 10},
        {"at": 150, "restart": "control-plane", "for": 10},
        {"at": 180, "goaway": "all"},
        {"at": 200, "reset": "all"},
    ]
    files("steps", script)
    done = run(
        files("before", before), "--script", str(tmp_path / "steps.yaml"), "--json", "--clients", "6", "--after", "20s"
    )
    steps = {step["what"].split()[0]: step for step in json.loads(done.stdout)["steps"]}
    assert steps["drain"]["moved"] == 0 and steps["drain"]["failed"] == 0  # a draining host keeps its sessions
    assert steps["kill"]["moved"] > 0 and steps["kill"]["connections_opened"] == 6
    assert steps["vanish"]["failed"] > 0 and steps["vanish"]["moved"] == 0  # nobody is told
    assert steps["partition"]["failed"] > 0
    assert steps["fail"]["failed"] == 60
    assert steps["restart"]["failed"] == 0 and steps["restart"]["settled_after"] > 10
    assert steps["goaway"]["failed"] == 0 and steps["goaway"]["connections_opened"] == 12
    assert steps["reset"]["connections_opened"] == 12


@pytest.fixture
def rehearse_steps(files, run, tmp_path):
    """Rehearses a script on a small mesh; returns the report."""

    def rehearse(listed, steps, *more):
        files("steps", steps)
        done = run(files("before", listed), "--script", str(tmp_path / "steps.yaml"), *SMALL, "--json", *more)
        return json.loads(done.stdout)

    return rehearse


def with_health(status, *hosts):
    """A cluster without sessions in which the first host has another health than the others."""
    listed = resources(*hosts)
    listed[0] = xds.listener("shop", routes="r")
    listed[3]["endpoints"][0]["lb_endpoints"][0]["health_status"] = status
    return listed


@pytest.mark.parametrize("status", ["UNHEALTHY", "DRAINING"])
def test_a_host_has_the_health_of_its_file_again_after_a_drain(rehearse_steps, status):
    report = rehearse_steps(with_health(status, *HOSTS[:2]), [{"at": 10, "drain": HOSTS[0], "for": 5}])
    assert report["load"]["after"]["by_host"] == {HOSTS[0]: 0, HOSTS[1]: 4}


def test_a_host_drains_until_the_last_of_several_drains_is_over(rehearse_steps):
    steps = [{"at": 10, "drain": HOSTS[0], "for": 2}, {"at": 11, "drain": HOSTS[0]}]
    report = rehearse_steps(with_health("HEALTHY", *HOSTS[:2]), steps)
    assert report["load"]["after"]["by_host"] == {HOSTS[0]: 0, HOSTS[1]: 4}


def test_the_resources_of_a_later_file_end_a_drain_and_keep_their_health(files, rehearse_steps):
    files("after", with_health("UNHEALTHY", *HOSTS[:2]))
    steps = [{"at": 10, "drain": HOSTS[0], "for": 10}, {"at": 15, "replace": "after.yaml"}]
    report = rehearse_steps(with_health("HEALTHY", *HOSTS[:2]), steps)
    assert report["load"]["after"]["by_host"] == {HOSTS[0]: 0, HOSTS[1]: 4}


def test_hosts_fail_as_often_as_before_when_a_step_of_failures_is_over(rehearse_steps):
    steps = [{"at": 10, "fail": "all", "rate": "0%", "for": 5}]
    report = rehearse_steps(resources(*HOSTS), steps, "--hosts", "errors=100%")
    assert report["calls"]["failed"] == 4 * 15


@pytest.mark.parametrize(
    ("first", "second", "column", "value"),
    [
        ({"slow": "all", "latency": "50ms"}, {"slow": "all", "latency": "1s"}, "p50", 102.0),
        ({"fail": "all", "rate": "100%"}, {"fail": "all", "rate": "0%"}, "failed", 4),
    ],
)
def test_a_step_that_ends_leaves_the_one_before_it_in_force(rehearse_steps, first, second, column, value):
    report = rehearse_steps(resources(*HOSTS), [{"at": 10, **first}, {"at": 11, "for": 2, **second}])
    assert report["per_second"][column][20] == value


# -- steps of the same host or control plane at the same time

DOWN = [*({"at": 10, action: "all", "for": 10} for action in ("kill", "vanish", "partition"))]


def failed_at(report):
    """The seconds in which calls failed."""
    return [second for second, failed in enumerate(report["per_second"]["failed"]) if failed]


@pytest.mark.parametrize("long", DOWN, ids=lambda step: list(step)[1])
@pytest.mark.parametrize("short", DOWN, ids=lambda step: list(step)[1])
def test_a_host_is_up_when_each_of_several_steps_is_over(rehearse_steps, long, short):
    steps = [{**long, "for": 10}, {**short, "at": 12, "for": 3}]
    report = rehearse_steps(resources(HOSTS[0]), steps, "--timeout", "500ms")
    assert set(range(16, 20)) <= set(failed_at(report))
    assert report["load"]["after"]["with_calls"] == 1


def test_a_host_that_was_killed_for_ever_does_not_come_back_with_the_end_of_another_step(rehearse_steps):
    steps = [{"at": 10, "kill": HOSTS[0]}, {"at": 12, "kill": "all", "for": 2}]
    report = rehearse_steps(resources(*HOSTS[:2]), steps)
    assert report["load"]["after"]["by_host"] == {HOSTS[0]: 0, HOSTS[1]: 4}


def test_a_host_refuses_connections_again_when_a_later_vanish_is_over(rehearse_steps):
    """What is in force then is the kill, which clients are told of at once."""
    steps = [{"at": 10, "kill": "all"}, {"at": 11, "vanish": "all", "for": 2}]
    report = rehearse_steps(resources(HOSTS[0]), steps, "--timeout", "500ms")
    codes = {each["code"]: each["message"] for each in report["calls"]["errors"]}
    assert "Connection refused" in codes["UNAVAILABLE"]
    assert report["per_second"]["failed"][24] == 4


def test_start_ends_what_took_a_host_down_and_leaves_the_others_alone(rehearse_steps):
    steps = [{"at": 10, "kill": "all", "for": 20}, {"at": 12, "start": HOSTS[0]}, {"at": 14, "goaway": HOSTS[0]}]
    report = rehearse_steps(resources(*HOSTS[:2]), steps, "--after", "20s", "--json")
    opened = report["per_second"]["connections_opened"]
    # The end of the kill at 30 s is the second host's alone: the first one's connections stay.
    assert sum(opened[30:]) == 4


def test_start_does_not_touch_a_host_that_is_up(rehearse_steps):
    steps = [{"at": 10, "kill": HOSTS[0]}, {"at": 12, "start": "all"}]
    report = rehearse_steps(resources(*HOSTS[:2]), steps)
    assert report["connections"]["opened"] == 4  # one of each client, to the host that was down


@pytest.mark.parametrize(
    ("second", "is_back"),
    [
        ({"stop": "control-plane", "for": 1}, False),
        ({"restart": "control-plane"}, True),
        ({"restart": "control-plane", "for": 2}, True),
    ],
)
def test_a_control_plane_stays_away_until_each_stop_is_over_or_a_restart_comes(files, rehearse_steps, second, is_back):
    files("after", resources(*HOSTS[2:]))
    steps = [{"at": 10, "stop": "control-plane"}, {"at": 12, **second}, {"at": 16, "replace": "after.yaml"}]
    report = rehearse_steps(resources(*HOSTS[:2]), steps)
    assert (report["load"]["after"]["by_host"].get(HOSTS[3], 0) > 0) == is_back


# -- a drain that can do nothing


def behind_dns():
    return [*resources(*HOSTS[:2])[:2], xds.logical_dns("cart", "a.example", 443)]


@pytest.mark.parametrize("hosts", ["198.18.0.1:443", "all"])
def test_a_host_of_a_logical_dns_cluster_cannot_drain(hosts):
    """Clients read no health of its endpoint (A37)."""
    found = read_script(f"- at: 5\n  drain: {hosts}", behind_dns(), None)
    assert [str(each) for each in found.problems] == [
        "line 2: drain: 198.18.0.1:443 is a host of the logical DNS cluster 'cart', and clients read no health of "
        "those; take kill, vanish, slow or fail"
    ]


def test_a_drain_of_all_hosts_notes_those_that_it_leaves_out(files, run, tmp_path):
    listed = [*resources(*HOSTS), xds.logical_dns("pay", "a.example", 443)]
    files("steps", [{"at": 10, "drain": "all"}])
    done = run(files("before", listed), "--script", str(tmp_path / "steps.yaml"), *SMALL)
    assert f"note: {tmp_path}/steps.yaml: line 1: drain: leaves out 198.18.0.1:443: it is a host of" in done.stdout
    assert run.plans[0].steps[0].hosts == tuple(HOSTS)


def test_a_host_that_is_not_served_yet_cannot_drain():
    text = f"- at: 5\n  drain: {HOSTS[3]}\n- {{at: 10, replace: after.yaml}}\n- {{at: 15, drain: {HOSTS[3]}}}"
    found = read_script(text, resources(*HOSTS[:2]), lambda name: tuple(resources(*HOSTS)))
    assert [str(each) for each in found.problems] == [
        f"line 2: drain: {HOSTS[3]} is in no ClusterLoadAssignment (EDS) that is served at 5 s, so it cannot be "
        "declared DRAINING"
    ]
