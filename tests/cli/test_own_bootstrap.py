"""Commands with a channel of their own: they leave the program's cache on disk alone, and miss a forgotten scheme."""

import json

import pytest
from click.testing import CliRunner
from support.mesh import METHOD, PLANE, Mesh

from trxds import BootstrapError
from trxds.cli.explain import explain_call
from trxds.cli.main import main
from trxds.cli.own_bootstrap import own_bootstrap, xds_advice
from trxds.testing import resources as xds


def with_cache(plane, directory):
    """The bootstrap with a cache in that directory, which no channel can open without a warning."""
    (directory / "trxds-xds-cache").mkdir(mode=0o777)
    (directory / "trxds-xds-cache").chmod(0o777)
    return xds.bootstrap(plane) | {"trxds.cache": {"directory": str(directory)}}


async def test_trxds_explain_opens_no_cache(autojump_clock, tmp_path, caplog):
    async with Mesh.run(1) as mesh:
        bootstrap = with_cache(PLANE, tmp_path)
        told = await explain_call("xds:///shop", METHOD, (), bootstrap, 10, 1, network=mesh.network)
    assert told.host == mesh.hosts[0]
    assert str(tmp_path) not in caplog.text


def test_trxds_call_opens_no_cache(tmp_path, caplog):
    file = tmp_path / "bootstrap.json"
    file.write_text(json.dumps(with_cache("127.0.0.1:1", tmp_path)))
    done = CliRunner().invoke(main, ["call", "xds:///shop", "--bootstrap", str(file), "--within", "200ms"])
    assert done.exit_code == 3
    assert str(tmp_path) not in caplog.text


def test_a_bootstrap_that_no_target_needs_stays_as_it_is():
    assert own_bootstrap("dns:///cart:50051", "no-such-file.json") == "no-such-file.json"


def test_a_bad_bootstrap_is_an_error():
    with pytest.raises(BootstrapError, match="xds_servers"):
        own_bootstrap("xds:///shop", "{}")


@pytest.fixture
def no_bootstrap(monkeypatch):
    for name in ("GRPC_XDS_BOOTSTRAP", "GRPC_XDS_BOOTSTRAP_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("command", [["explain", "TARGET", METHOD, "--settle", "0"], ["call", "TARGET"]])
def test_a_name_that_dns_does_not_know_may_be_the_control_planes(no_bootstrap, monkeypatch, command):
    target = "s" * 64  # longer than a label, so no DNS server is asked
    command = [target if each == "TARGET" else each for each in command]
    advice = f"{target} is a name for DNS; if the control plane of the bootstrap has it, write xds:///{target}\n"
    assert advice not in CliRunner().invoke(main, command).stderr
    monkeypatch.setenv("GRPC_XDS_BOOTSTRAP_CONFIG", "{}")
    assert CliRunner().invoke(main, command).stderr.endswith(advice)


@pytest.mark.parametrize("target", ["xds:///shop", "dns:///shop", "shop:443", "unix:/run/shop", "127.0.0.1"])
def test_a_target_with_a_scheme_a_port_or_an_ip_address_is_meant_as_it_stands(no_bootstrap, target):
    assert xds_advice(target, "bootstrap.json") == ""


def test_without_a_bootstrap_no_control_plane_is_meant(no_bootstrap):
    assert xds_advice("shop", None) == ""
