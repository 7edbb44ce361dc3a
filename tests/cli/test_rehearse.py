"""`trxds rehearse`: files, scripts and options in; a report, a page and an exit status out."""

import json
import re
from html.parser import HTMLParser

import pytest
import yaml
from click.testing import CliRunner
from support.sessions import in_cookie, override

from trxds.cli.main import main
from trxds.cli.quantities import parse_seconds, parse_share
from trxds.cli.rehearsal import child, command, mesh_of_files
from trxds.cli.rehearsal.expectations import QUANTITIES, parse_expectations
from trxds.cli.rehearsal.host_options import parse_behaviours
from trxds.cli.rehearsal.plan import HostBehaviour, Plan
from trxds.cli.rehearsal.report import evenness
from trxds.cli.rehearsal.run import rehearse
from trxds.cli.rehearsal.script import read_script
from trxds.testing import resources as xds
from trxds.xds.resource_names import Target

HOSTS = [f"10.0.1.{number}:50051" for number in range(1, 5)]
SMALL = ["--clients", "4", "--before", "10s", "--after", "15s"]


def resources(*hosts, cluster="cart", **more):
    return [
        xds.listener("shop", routes="r", filters=[xds.stateful_session()]),
        xds.routes("r", xds.route(cluster, prefix="/shop.Cart/")),
        xds.cluster(cluster),
        xds.endpoints(cluster, xds.locality(*hosts, **more)),
    ]


@pytest.fixture
def files(tmp_path):
    """Writes files of resources; `files("before", [...])` returns the path."""

    def write(name, listed):
        path = tmp_path / f"{name}.yaml"
        path.write_text(listed if isinstance(listed, str) else yaml.safe_dump(listed))
        return str(path)

    return write


@pytest.fixture
def run(monkeypatch):
    """Runs the command, with the rehearsal in this process: another one takes half a second."""
    plans = []

    def in_this_process(plan):
        plans.append(Plan.from_json(plan.to_json()))
        return json.loads(json.dumps(rehearse(plans[-1])))

    monkeypatch.setattr(command, "run_in_child", in_this_process)

    def invoke(*arguments):
        return CliRunner().invoke(main, ["rehearse", *arguments])

    invoke.plans = plans
    return invoke


# -- the report


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
    done = run(before, after, "--clients", "1", "--rps", "0.001", "--after", "30h", "--json")
    assert json.loads(done.stdout)["calls"]["after_the_change"] == 108


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
    text = page.read_text()
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
    text = page.read_text()
    assert "&lt;script&gt;alert(" in text
    assert not Tags(text).tags & {"script", "img"}


# -- files and options


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
        (["AFTER", "--keepalive", "5s"], "must be 10s or more"),
        (["AFTER", "AFTER", "--script", "AFTER"], "with --script there is one file"),
    ],
)
def test_a_wrong_option_is_a_usage_error(files, run, arguments, message):
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    done = run(before, *(after if each == "AFTER" else each for each in arguments))
    assert done.exit_code == 2
    assert message in re.sub(r"\s*\n\s*", " ", done.stderr)


def test_a_file_without_a_listener_for_clients_needs_a_target(files, run):
    before, after = files("before", resources(*HOSTS)[1:]), files("after", resources(*HOSTS)[1:])
    done = run(before, after)
    assert done.exit_code == 2 and "name one by --target xds:///NAME" in done.stderr


def test_a_share_is_of_all_sessions_and_of_the_calls_since_the_first_step():
    report = {
        "sessions": {"moved": 1, "total": 20},
        "calls": {"failed": 3, "after_the_change": 300},
        "settled_after": None,
    }
    verdicts = [each.check(report) for each in parse_expectations("moved<=5%, moved < 5% failed <= 1% settled<=10s")]
    assert [(each.text, each.found, each.holds) for each in verdicts] == [
        ("moved<=5%", "5%", True),
        ("moved<5%", "5%", False),
        ("failed<=1%", "1%", True),
        ("settled<=10s", "none", False),  # it has not settled
    ]


def test_each_quantity_of_an_expectation_is_in_the_report(files, run):
    before, after = files("before", resources(*HOSTS)), files("after", resources(*HOSTS[1:]))
    expected = " ".join(f"{name}>=0" for name in QUANTITIES if not name.startswith("added"))
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


# -- what the files name


def test_hosts_are_all_endpoints_of_clusters_of_any_kind():
    listed = [
        xds.endpoints("cart", xds.locality(*HOSTS[:2], "[2001:db8::1]:80")),
        xds.logical_dns("pay", "pay.example", 443),
    ]
    names = mesh_of_files.names(listed)
    assert names == {"pay.example": ("198.18.0.1",)}
    assert mesh_of_files.addresses(listed, names) == (*HOSTS[:2], "[2001:db8::1]:80", "198.18.0.1:443")


def test_hosts_have_the_addresses_that_clients_write():
    listed = [xds.endpoints("cart", xds.locality("[2001:DB8:0::1]:80", "[2001:db8::1]:80"))]
    assert mesh_of_files.addresses(listed, {}) == ("[2001:db8::1]:80",)


@pytest.mark.parametrize(
    ("match", "method"),
    [
        ({"prefix": ""}, "/rehearsal.Echo/Call"),
        ({"prefix": "/"}, "/rehearsal.Echo/Call"),
        ({"prefix": "/shop.Cart/"}, "/shop.Cart/Call"),
        ({"prefix": "/shop."}, "/shop.Echo/Call"),
        ({"prefix": "/shop.Cart/A"}, "/shop.Cart/A"),
        ({"path": "/shop.Cart/Add"}, "/shop.Cart/Add"),
        ({"prefix": "/shop/v1/Cart"}, "/rehearsal.Echo/Call"),  # no method has two slashes more
    ],
)
def test_a_method_is_called_for_each_route(match, method):
    table = xds.routes("r", xds.route("cart"))
    table["virtual_hosts"][0]["routes"][0]["match"] = match
    found = mesh_of_files.matches([xds.listener("shop", routes="r"), table], Target("shop", "shop"))
    assert mesh_of_files.methods(found) == (method,)


@pytest.mark.parametrize(
    ("match", "note"),
    [
        ({"prefix": "", "headers": [{"name": "user", "exact_match": "7"}]}, "no call has the headers of 1 route"),
        ({"safe_regex": {"regex": "/shop.*"}}, "no call is made for 1 route by regular expression; name methods by"),
    ],
)
def test_routes_that_no_call_uses_are_noted(files, run, match, note):
    listed = resources(*HOSTS)
    listed[1]["virtual_hosts"][0]["routes"].insert(0, {"match": match, "route": {"cluster": "cart"}})
    before = files("before", listed)
    assert f"note: xds:///shop: {note}" in run(before, before, *SMALL).stdout
    is_named = "note:" not in run(before, before, *SMALL, "--method", "/shop.Pay/Pay").stdout
    assert is_named == ("safe_regex" in match)


def test_a_route_of_a_later_file_is_called_from_the_start(files, run):
    """Or the sessions of its calls could not move when it takes them from another route."""
    before, after = (resources(*HOSTS[:2]) for _ in range(2))
    for listed in (before, after):
        listed += [xds.cluster("pay"), xds.endpoints("pay", xds.locality(*HOSTS[2:]))]
    add = {"match": {"path": "/shop.Cart/Add"}, "route": {"cluster": "pay"}}
    after[1] = xds.routes("r", add, xds.route("cart", prefix="/shop.Cart/"))
    report = json.loads(run(files("before", before), files("after", after), *SMALL, "--json").stdout)
    assert report["rehearsal"]["methods"] == ["/shop.Cart/Call", "/shop.Cart/Add"]
    assert report["sessions"]["moved"] == 4


def test_each_target_has_the_methods_of_its_own_routes(files, run):
    listed = [
        *(xds.listener(name, routes=name, filters=[xds.stateful_session()]) for name in ("cart", "pay")),
        *(xds.routes(name, xds.route("cart", prefix=f"/shop.{name}/")) for name in ("cart", "pay")),
        *resources(*HOSTS)[2:],
    ]
    listed[3]["virtual_hosts"] += [{"name": "x", "domains": ["x"], "routes": [xds.route("cart", prefix="/x.X/")]}]
    before, after = files("before", listed), files("after", listed)
    assert run(before, after, *SMALL, "--expect", "failed==0").exit_code == 0
    assert run.plans[0].load.targets == {"xds:///cart": ("/shop.cart/Call",), "xds:///pay": ("/shop.pay/Call",)}


def test_a_federated_listener_has_a_target_with_its_authority():
    name = "xdstp://east/envoy.config.listener.v3.Listener/shop"
    listed = [xds.listener(name, routes="r")]
    assert mesh_of_files.targets(listed) == ("xds://east/shop",)
    assert mesh_of_files.bootstrap_of(listed, "web", delta=False)["authorities"] == {"east": {}}


def test_a_cluster_behind_dns_gets_a_host(files, run):
    def dns(name):
        listed = resources(*HOSTS)
        return [*listed[:2], xds.logical_dns("cart", name, 443)]

    before, after = files("before", dns("a.example")), files("after", dns("b.example"))
    done = run(before, after, *SMALL, "--json")
    report = json.loads(done.stdout)
    assert report["load"]["after"]["by_host"] == {"198.18.0.2:443": 4.0}
    assert report["calls"]["failed"] == 0
    assert report["remarks"] == ["a.example is 198.18.0.1 in the rehearsal", "b.example is 198.18.0.2 in the rehearsal"]


def test_a_script_reaches_the_hosts_behind_dns(files, run, tmp_path):
    before = files("before", [*resources(*HOSTS)[:2], xds.logical_dns("cart", "a.example", 443)])
    for host in ("all", "198.18.0.1:443"):
        files("steps", [{"at": 10, "kill": host}])
        done = run(before, "--script", str(tmp_path / "steps.yaml"), *SMALL, "--json", "--expect", "failed==0")
        calls = json.loads(done.stdout)["calls"]
        assert calls["failed"] == calls["after_the_change"] > 0


# -- scripts


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
