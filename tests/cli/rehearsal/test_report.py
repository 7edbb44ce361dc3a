"""`trxds rehearse`: files in; a report, a page and an exit status out."""

import json
import re
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner
from support.rehearsal_files import HOSTS, SMALL, resources
from support.sessions import in_cookie, override

from trxds.cli.main import main
from trxds.cli.rehearsal import child, command
from trxds.cli.rehearsal.report import evenness, percentile
from trxds.testing import resources as xds


def test_a_host_that_is_taken_away_moves_its_sessions_and_no_others(files, run):
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    done = run(before, after, *SMALL, "--clients", "12", "--json", "--expect", "failed==0")
    report = json.loads(done.stdout)
    why, held = report["sessions"]["why"], report["sessions"]["by_host"]
    assert {(each["from"], each["reason"], each["cause"]) for each in why} == {
        (HOSTS[0], "unknown_host", 'EDS resource "cart" version 2')
    }
    assert report["sessions"]["moved"] == held["before"][HOSTS[0]] > 0
    assert HOSTS[0] not in held["after"] and sum(held["after"].values()) == 12
    assert report["calls"]["failed"] == 0 and report["calls"]["total"] > 250
    assert report["connections"]["opened"] == 0 and report["connections"]["closed"] == {"subchannel shutdown": 12}
    assert report["settled_after"] <= 1.1  # a client calls once a second
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("filters", "reason"), [([xds.stateful_session("renamed")], "no_cookie"), ([], "no_session_filter")]
)
def test_sessions_whose_cookie_counts_no_more_have_moved(files, run, filters, reason):
    before, after = (resources(*HOSTS) for _ in range(2))
    after[0] = xds.listener("shop", routes="r", filters=filters)
    done = run(files("before", before), files("after", after), *SMALL, "--json", "--expect", "moved==0")
    report = json.loads(done.stdout)
    assert report["sessions"]["moved"] == report["sessions"]["moves"] == 4
    assert {each["reason"] for each in report["sessions"]["why"]} == {reason}
    assert sum(report["sessions"]["by_host"]["after"].values()) == (4 if filters else 0)
    assert done.exit_code == 1


def test_sessions_without_a_filter_move_also_if_there_are_as_many_as_hosts(files, run):
    """In turns, round robin would lead each session to the same host every time."""
    before, after = (resources(*HOSTS) for _ in range(2))
    after[0] = xds.listener("shop", routes="r")
    done = run(files("before", before), files("after", after), *SMALL, "--sessions", "4", "--rps", "4", "--json")
    assert json.loads(done.stdout)["sessions"]["moved"] == 16


def test_sessions_that_come_to_the_cookie_of_another_route_have_moved(files, run):
    """Each route has a cookie of its own before the change, so a session has two hosts; then one has all calls."""
    before, after = (resources(*HOSTS) for _ in range(2))
    routes = [xds.route("cart", prefix="/shop.Cart/"), xds.route("cart", prefix="/shop.Pay/")]
    after[1] = xds.routes("r", *routes)
    own = {"typed_per_filter_config": override(in_cookie("pay"))}
    before[1] = xds.routes("r", routes[0], routes[1] | own)
    done = run(files("before", before), files("after", after), *SMALL, "--json")
    assert json.loads(done.stdout)["sessions"]["moved"] == 4


def test_a_route_without_a_session_filter_moves_no_session(files, run):
    listed = resources(*HOSTS)
    listed[1] = xds.routes(
        "r",
        xds.route("cart", prefix="/shop.Cart/"),
        xds.route("cart") | xds.filter_overrides(**override(disabled=True)),
    )
    before, after = files("before", listed), files("after", listed)
    assert run(before, after, *SMALL, "--expect", "moved==0").exit_code == 0


def test_sessions_that_nothing_held_before_the_change_are_noted(files, run):
    before, after = (resources(*HOSTS) for _ in range(2))
    before[0] = xds.listener("shop", routes="r")
    done = run(files("before", before), files("after", after), *SMALL)
    assert "note: no session had a host before the change, so none can move; does BEFORE have a session" in done.stdout


def test_sessions_that_get_their_hosts_after_the_change_were_on_none_before_it(files, run):
    before, after = (resources(*HOSTS) for _ in range(2))
    before[0] = xds.listener("shop", routes="r")
    report = json.loads(run(files("before", before), files("after", after), *SMALL, "--json").stdout)
    held = report["sessions"]["by_host"]
    assert held["before"] == {} and sum(held["after"].values()) == 4


def test_each_target_has_a_client(files, run):
    listed = [xds.listener(f"shop-{number}", routes="r", filters=[xds.stateful_session()]) for number in range(25)]
    before = files("before", [*listed, *resources(*HOSTS)[1:]])
    run(before, before, "--before", "2s", "--after", "2s")
    assert run.plans[0].load.clients == 25
    done = run(before, before, "--before", "2s", "--after", "2s", "--clients", "4")
    assert "note: 21 targets without a client, such as xds:///shop-4; give --clients 25" in done.stdout


@pytest.mark.parametrize(
    "more",
    [["--sessions", "9"], ["--rps", "0.05"], [each for n in range(12) for each in ("--method", f"/shop.Cart/{n}")]],
)
def test_a_load_that_does_not_reach_all_sessions_and_methods_in_time_is_noted(files, run, more):
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    done = run(before, after, *SMALL, *more)
    assert "s to call each method in each session, and has 10 s before the first step and 15 s after" in done.stdout
    assert "note:" not in run(before, after, *SMALL, "--sessions", "8").stdout


def test_sessions_that_move_also_before_the_change_are_told_apart(files, run):
    """Two routes to different clusters share a cookie, which names a host of one of them."""
    listed = resources(*HOSTS[:2])
    listed[1] = xds.routes("r", xds.route("cart", prefix="/shop.Cart/"), xds.route("pay"))
    before = files("before", [*listed, xds.cluster("pay"), xds.endpoints("pay", xds.locality(*HOSTS[2:]))])
    assert re.search(
        r"^sessions     4 of 4 moved \(100%\), \d+ moves; before it 4$", run(before, before, *SMALL).stdout, re.M
    )


def test_a_rehearsal_without_sessions_notes_nothing_about_them(files, run):
    listed = resources(*HOSTS)
    listed[0] = xds.listener("shop", routes="r")
    before, after = files("before", listed), files("after", resources(*HOSTS))
    assert "note:" not in run(before, after, *SMALL, "--sessions", "0").stdout


def test_the_text_has_what_the_report_has(files, run):
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    done = run(before, after, *SMALL, "--clients", "12", "--expect", "failed==0 moved<=1%")
    assert "at 10 s: replace by after.yaml" in done.stdout
    assert re.search(r"^sessions     \d of 12 moved \([\d.]+%\)$", done.stdout, re.M)
    assert f"{HOSTS[0]} -> " in done.stdout and 'unknown_host (EDS resource "cart" version 2)' in done.stdout
    assert re.search(r"^holds        failed==0 \(found 0\)$", done.stdout, re.M)
    assert re.search(r"^FAILS        moved<=1% \(found [\d.]+%\)$", done.stdout, re.M)
    assert done.exit_code == 1


def test_a_resource_that_clients_refuse_is_reported_with_its_field(files, run):
    bad = resources(*HOSTS)
    bad[2]["lb_policy"] = "MAGLEV"
    done = run(files("before", resources(*HOSTS)), files("after", bad), *SMALL, "--json", "--expect", "refused==0")
    (refused,) = json.loads(done.stdout)["resources_refused"]
    assert refused["clients"] == 4 and "lb_policy" in refused["error"]
    assert refused["type"] == "envoy.config.cluster.v3.Cluster"
    assert done.exit_code == 1


def test_calls_that_fail_have_the_error_that_a_program_would_see(files, run):
    gone = resources(*HOSTS)
    gone[1] = xds.routes("r", xds.route("kart", prefix="/shop.Cart/"))
    done = run(files("before", resources(*HOSTS)), files("after", gone), *SMALL, "--after", "30s", "--json")
    calls = json.loads(done.stdout)["calls"]
    assert calls["failed"] > 0
    assert any('"kart"' in each["message"] and each["code"] == "UNAVAILABLE" for each in calls["errors"])


def test_calls_that_are_open_at_the_end_count_by_their_ends(files, run, tmp_path):
    before = files("before", resources(*HOSTS))
    files("steps", [{"at": 10, "vanish": "all"}])
    done = run(before, "--script", str(tmp_path / "steps.yaml"), *SMALL, "--timeout", "60s", "--json")
    report = json.loads(done.stdout)
    assert report["calls"]["failed"] == report["calls"]["after_the_change"] == 4 * 15
    assert report["settled_after"] is None


def test_what_a_file_of_clients_would_refuse_is_noted(files, run, tmp_path):
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS)[:3])
    files("steps", [{"at": 10, "replace": "after.yaml"}])
    for change in ([after], ["--script", str(tmp_path / "steps.yaml")]):
        done = run(before, *change, *SMALL)
        assert re.search(r'^note: .*after.yaml: .*EDS resource "cart", which is not in the file', done.stdout, re.M)


def test_several_files_are_steps_one_after_the_other(files, run):
    names = [files(f"v{number}", resources(*HOSTS[number:])) for number in range(3)]
    report = json.loads(run(*names, *SMALL, "--json").stdout)
    assert [(step["at"], step["what"]) for step in report["steps"]] == [
        (10.0, "replace by v1.yaml"),
        (25.0, "replace by v2.yaml"),
    ]
    assert report["rehearsal"]["seconds"] == 40


def test_latency_that_a_step_adds_is_reported(files, run, tmp_path):
    before = files("before", resources(HOSTS[0]))
    files("steps", "- {at: 10s, slow: all, latency: 50ms}")
    report = json.loads(run(before, "--script", str(tmp_path / "steps.yaml"), *SMALL, "--json").stdout)
    assert report["latency"]["before"]["p50"] == 3.0  # 0.5 ms there and back, and 2 ms of work
    assert report["latency_added"]["after"]["p50"] == pytest.approx(99.0)


def test_a_window_without_a_whole_second_has_no_load(files, run):
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    load = json.loads(run(before, after, "--before", "500ms", "--after", "20s", "--json").stdout)["load"]
    assert (load["before"]["hosts"], load["before"]["with_calls"]) == (4, 0)
    assert load["after"]["with_calls"] == 3


@pytest.mark.slow
def test_a_rehearsal_may_last_longer_than_a_day(files, run):
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    done = run(before, after, "--clients", "1", "--rps", "0.001", "--after", "25h", "--json")
    assert json.loads(done.stdout)["calls"]["after_the_change"] == 90


def test_reports_of_load_are_no_load(files, run):
    """With client_side_weighted_round_robin each client may ask each host for them (A51)."""
    policies = "type.googleapis.com/envoy.extensions.load_balancing_policies"
    policy = {
        "@type": f"{policies}.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin",
        "enable_oob_load_report": True,
    }
    listed = resources(*HOSTS)
    listed[2]["load_balancing_policy"] = {
        "policies": [{"typed_extension_config": {"name": "weighted", "typed_config": policy}}]
    }
    before = files("before", listed)
    load = json.loads(run(before, before, *SMALL, "--json").stdout)["load"]["after"]
    assert sum(load["by_host"].values()) == 4  # one call a second of each client


@pytest.mark.parametrize(
    ("percent", "length", "rank"), [(7, 100, 7), (50, 1, 1), (50, 4, 2), (95, 20, 19), (99, 100, 99), (99, 101, 100)]
)
def test_a_percentile_is_the_value_of_the_nearest_rank(percent, length, rank):
    assert percentile(range(1, length + 1), percent) == rank


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (100, 5)])
def test_the_first_and_the_last_percentile_are_the_least_and_the_greatest_value(percent, value):
    assert percentile([1, 2, 5], percent) == value


def test_evenness_is_one_if_all_hosts_have_as_much():
    assert evenness([3.0, 3.0]) == {"hosts": 2, "with_calls": 2, "peak_to_mean": 1.0, "fairness": 1.0}
    assert evenness([4.0, 0.0]) == {"hosts": 2, "with_calls": 1, "peak_to_mean": 2.0, "fairness": 0.5}
    assert evenness([]) == {"hosts": 0, "with_calls": 0, "peak_to_mean": None, "fairness": None}


def test_both_protocol_variants_can_be_rehearsed(files, run):
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    sotw, delta = (json.loads(run(before, after, *SMALL, "--json", *more).stdout) for more in ([], ["--delta"]))
    assert (sotw["rehearsal"]["protocol"], delta["rehearsal"]["protocol"]) == ("state of the world", "delta")
    assert sotw["sessions"]["moved"] == delta["sessions"]["moved"]
    assert sotw["rehearsal"]["digest"] != delta["rehearsal"]["digest"]


@pytest.mark.slow
def test_the_same_plan_gives_the_same_report_byte_for_byte(files):
    """In processes of their own, as `trxds rehearse` runs them."""
    arguments = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:])), *SMALL, "--json"
    first, again = (CliRunner().invoke(main, ["rehearse", *arguments]).stdout for _ in range(2))
    assert first == again


def test_another_seed_gives_another_report(files, run):
    arguments = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:])), *SMALL, "--json"
    first, other = (json.loads(run(*arguments, "--policy-seed", seed).stdout) for seed in ("1", "2"))
    assert first["rehearsal"]["digest"] != other["rehearsal"]["digest"]


def test_a_crash_of_the_rehearsal_is_an_error_that_names_it(files, monkeypatch):
    monkeypatch.setattr(child.sys, "executable", "/bin/false")
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    done = CliRunner().invoke(main, ["rehearse", before, after, *SMALL])
    assert done.exit_code == 1 and "this is a bug in trxds, please report it" in done.output


def test_ctrl_c_before_the_report_exits_3(files, monkeypatch):
    def interrupted(plan):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_in_child", interrupted)
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    done = CliRunner().invoke(main, ["rehearse", before, after])
    assert (done.exit_code, done.output) == (3, "")


# -- the page


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags = set()
        self.attributes = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs


def test_the_page_has_charts_no_script_and_nothing_from_elsewhere(files, run, tmp_path):
    page = tmp_path / "report.html"
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    run(before, after, *SMALL, "--html", str(page), "--expect", "failed==0")
    text = page.read_text("utf-8")
    found = Tags(text)
    assert {"svg", "polyline", "rect", "table"} <= found.tags
    assert not found.tags & {"script", "link", "img", "iframe", "object", "base", "form"}
    assert not [name for name, _ in found.attributes if name.startswith("on") or name in ("src", "href", "srcset")]
    assert "default-src 'none'" in text
    assert HOSTS[0] in text and "sessions moved" in text and "failed==0" in text


def test_every_name_from_the_files_is_escaped_in_the_page(files, run, tmp_path):
    name = '<script>alert("1")</script>'
    page = tmp_path / "report.html"
    before = files("before", resources(*HOSTS, cluster=name))
    bad = resources(*HOSTS[1:], cluster=name)
    bad[2]["lb_policy"] = "MAGLEV"
    after = files("after<img>", bad)
    run(before, after, *SMALL, "--html", str(page))
    text = page.read_text("utf-8")
    assert "&lt;script&gt;alert(" in text
    assert not Tags(text).tags & {"script", "img"}


def test_a_page_that_cannot_be_written_is_an_error_and_the_report_is_printed(files, run, tmp_path):
    before, page = files("before", resources(*HOSTS)), tmp_path / "nowhere" / "report.html"
    done = run(before, before, *SMALL, "--html", str(page))
    assert "sessions     0 of 4 moved" in done.stdout
    assert f"{page}: No such file or directory; the page was not written" in done.stderr
    assert done.exit_code == 1
