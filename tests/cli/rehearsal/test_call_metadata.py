"""`trxds rehearse -H` and `--method`: calls with metadata, and the routes that no call takes."""

import json

import pytest
from support.rehearsal_files import HOSTS, SMALL, resources

from trxds.cli.rehearsal.call_options import parse_call
from trxds.cli.rehearsal.plan import Call
from trxds.cli.rehearsal.routes import untried
from trxds.testing import resources as xds

CANARY = {"prefix": "/shop.Cart/", "headers": [{"name": "x-canary", "string_match": {"exact": "1"}}]}


def table(*matches):
    return xds.routes("r", *({"match": match, "route": {"cluster": "cart"}} for match in matches))


def notes(calls, *matches):
    return list(untried([table(*matches)], "shop", calls))


# -- the calls


def test_a_kind_of_call_is_a_method_and_its_metadata():
    call = parse_call("/shop.Cart/Add User:7 trace-bin:AAE 'note: two words'")
    assert call == Call("/shop.Cart/Add", (("user", "7"), ("trace-bin", "AAE"), ("note", "two words")))


def with_canary():
    """Calls with a header go to the last two hosts."""
    listed = resources(*HOSTS[:2])
    listed[1]["virtual_hosts"][0]["routes"].insert(0, {"match": CANARY, "route": {"cluster": "canary"}})
    return [*listed, xds.cluster("canary"), xds.endpoints("canary", xds.locality(*HOSTS[2:]))]


def hosts_with_calls(done):
    load = json.loads(done.stdout)["load"]["after"]["by_host"]
    return {host for host, calls in load.items() if calls}


@pytest.mark.parametrize(
    ("options", "hosts"),
    [
        ([], HOSTS[:2]),
        (["-H", "x-canary:1"], HOSTS[2:]),
        (["-H", "x-canary:2"], HOSTS[:2]),
        (["--method", "/shop.Cart/Add x-canary:1"], HOSTS[2:]),
        (["--method", "/shop.Cart/Add x-canary:1", "--method", "/shop.Cart/Add"], HOSTS),
    ],
)
def test_calls_take_the_routes_of_their_metadata(files, run, options, hosts):
    before = files("before", with_canary())
    done = run(before, before, *SMALL, "--sessions", "0", "--clients", "12", *options, "--json")
    assert hosts_with_calls(done) == set(hosts)


def test_metadata_of_all_calls_may_be_in_a_file(files, run, tmp_path):
    (tmp_path / "headers").write_text("x-canary: 1\n")
    before = files("before", with_canary())
    done = run(before, before, *SMALL, "--clients", "12", "-H", f"@{tmp_path}/headers", "--json")
    assert hosts_with_calls(done) == set(HOSTS[2:])


def test_the_report_has_the_keys_of_metadata_and_no_value(files, run):
    before = files("before", with_canary())
    done = run(before, before, *SMALL, "-H", "authorization: s3cret", "-H", "x-canary:1", "--json")
    assert json.loads(done.stdout)["rehearsal"]["metadata"] == ["authorization", "x-canary"]
    assert "s3cret" not in done.stdout


def test_calls_of_two_kinds_with_one_path_are_no_moves_of_their_session(files, run):
    """The kinds have different routes, and only the cookie of one of them names a host."""
    before = with_canary()
    per_route = "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute"
    route = before[1]["virtual_hosts"][0]["routes"][0]
    route |= xds.filter_overrides(stateful_session={"@type": per_route, "disabled": True})
    name = files("before", before)
    kinds = ["--method", "/shop.Cart/Add x-canary:1", "--method", "/shop.Cart/Add"]
    report = json.loads(run(name, name, *SMALL, *kinds, "--json").stdout)
    assert report["sessions"]["moves"] == report["sessions"]["moved_before"] == 0


# -- the routes that no call takes


def test_a_route_by_headers_is_noted_unless_a_call_has_them():
    assert notes([Call("/shop.Cart/Add")], CANARY) == [
        'no call has the headers of the route for "/shop.Cart/" and anything after it with header x-canary: "1": '
        "give them by --method '/package.Service/Method KEY:VALUE', or by -H"
    ]
    assert notes([Call("/shop.Cart/Add", (("x-canary", "1"),))], CANARY) == []


def test_a_route_whose_path_no_call_has_is_noted():
    pattern = {"safe_regex": {"regex": "/shop.*"}}
    assert notes([Call("/pay.Pay/Pay")], pattern) == [
        "no call has the path of the route for a match of '/shop.*': name a method there by --method"
    ]
    assert notes([Call("/shop.Cart/Add")], pattern) == []


def test_a_route_whose_calls_all_take_an_earlier_one_is_noted():
    calls = [Call("/shop.Cart/Add", (("x-canary", "1"),))]
    assert notes(calls, CANARY, {"prefix": ""}) == [
        "earlier routes take each call that would reach the route for any path: name others by --method"
    ]


def test_several_routes_of_one_reason_are_one_note():
    (note,) = notes([Call("/pay.Pay/Pay")], {"path": "/a.A/A"}, {"path": "/b.B/B"})
    assert note.startswith('no call has the path of 2 routes, such as "/a.A/A": ')


@pytest.mark.parametrize(
    "unreachable",
    [
        [{"prefix": ""}, {"prefix": "/pay.Pay/"}],
        [{"prefix": "/pay."}, {"path": "/pay.Pay/Pay"}],
        [{"prefix": "/"}, {"safe_regex": {"regex": "/pay.*"}}],
        [{"path": "/a.A/A"}, {"path": "/a.A/A"}, {"prefix": ""}],
        [{"prefix": "", "runtime_fraction": {"default_value": {"numerator": 0}}}, {"prefix": ""}],
        [{"prefix": "/a/b/c"}, {"prefix": ""}],  # clients skip it
    ],
)
def test_a_route_that_no_call_at_all_could_take_is_not_noted(unreachable):
    assert notes([Call("/shop.Cart/Add"), Call("/pay.X/X"), Call("/a.A/A")], *unreachable) == []


def test_a_route_for_a_share_of_calls_leaves_the_others_to_the_next_one():
    share = {"prefix": "", "runtime_fraction": {"default_value": {"numerator": 10}}}
    assert notes([Call("/shop.Cart/Add")], share, {"prefix": ""}) == []


def test_routes_of_another_virtual_host_are_not_noted():
    other = table({"path": "/a.A/A"})
    other["virtual_hosts"][0]["domains"] = ["pay"]
    assert list(untried([other], "shop", [Call("/shop.Cart/Add")])) == []


def test_routes_of_any_file_are_noted_once():
    tables = [table({"prefix": ""}), table(CANARY, {"prefix": ""}), table(CANARY, {"prefix": ""})]
    assert len(list(untried(tables, "shop", [Call("/shop.Cart/Add")]))) == 1


def test_the_command_notes_the_routes_of_each_target(files, run):
    before = files("before", with_canary())
    done = run(before, before, *SMALL, "--expect", "untried==1")
    assert "note: xds:///shop: no call has the headers of the route for" in done.stdout
    assert done.exit_code == 0
    assert run(before, before, *SMALL, "-H", "x-canary:1", "--expect", "untried==1").exit_code == 0
