"""`trxds rehearse --script`: steps with their times."""

import json

import pytest
from support.rehearsal_files import HOSTS, SMALL, resources

from trxds.cli.rehearsal.script import read_script
from trxds.testing import resources as xds


def steps_of(text, read=lambda name: ()):
    return read_script(text, lambda resources: tuple(HOSTS), read)


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
