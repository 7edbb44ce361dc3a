"""`trxds rehearse`: the hosts, targets and methods that the files name."""

import json

import pytest
from support.rehearsal_files import HOSTS, SMALL, resources

from trxds.cli.rehearsal import mesh_of_files
from trxds.cli.rehearsal.plan import Call
from trxds.testing import resources as xds


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
    tables = mesh_of_files.route_tables([xds.listener("shop", routes="r"), table], "shop")
    assert mesh_of_files.methods(mesh_of_files.matches(tables, "shop")) == (method,)


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
    assert run.plans[0].load.targets == {
        "xds:///cart": (Call("/shop.cart/Call"),),
        "xds:///pay": (Call("/shop.pay/Call"),),
    }


def test_a_listener_is_requested_by_its_name_also_with_a_percent_sign(files, run):
    """A target is a URI, so what follows the sign would be decoded (A47)."""
    listed = resources(*HOSTS)
    listed[0] = xds.listener("shop%20eu", routes="r", filters=[xds.stateful_session()])
    before = files("before", listed)
    assert run(before, before, *SMALL, "--expect", "failed==0").exit_code == 0
    assert list(run.plans[0].load.targets) == ["xds:///shop%2520eu"]


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
