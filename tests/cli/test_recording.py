"""`--save` of `trxds check` and `trxds xds`: a file for rehearsals, which has no secret in it."""

import os
import stat
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
import trio
import yaml
from click.testing import CliRunner

import trxds
from trxds.admin import serve
from trxds.cli.control_plane import read_for_clients
from trxds.cli.main import main
from trxds.cli.recording import file, sources
from trxds.cli.recording.file import save
from trxds.cli.running.access import Access
from trxds.resources import protos
from trxds.resources.resource_file import read_resource_file
from trxds.testing import ManagementServer, MemoryNetwork
from trxds.testing import resources as xds
from trxds.xds.bootstrap import parse

TYPES = "type.googleapis.com/envoy"
SECRET = "hunter2-hunter2"


def mesh():
    return [
        xds.listener("shop", routes="r", filters=[xds.stateful_session()]),
        xds.routes("r", xds.route("cart")),
        xds.cluster("cart"),
        xds.endpoints("cart", xds.locality("10.0.0.2:50051")),
    ]


def named(resource):
    return resource.get("name") or resource["cluster_name"], protos.from_json(resource)


def saved(tmp_path, *resources):
    path = tmp_path / "saved.yaml"
    line = save(path, "a test", map(named, resources))
    return path.read_text(), line


def read(text):
    found = read_for_clients(text)
    assert (found.problems, found.remarks) == ((), ())
    return list(found.resources.values())


def test_what_is_saved_is_what_rehearsals_read(tmp_path):
    text, line = saved(tmp_path, *mesh(), *mesh())
    assert [protos.from_json(each) for each in read(text)] == [protos.from_json(each) for each in mesh()]
    assert line == f"{tmp_path}/saved.yaml: 4 resources; 0 fields left out"


def test_the_file_says_what_it_is_and_that_secrets_are_left_out(tmp_path):
    text, _ = saved(tmp_path, *mesh())
    assert text.splitlines()[:3] == [
        "# Recorded from a test by trxds.",
        "# Credentials, private keys and inline secrets are left out:",
        "# - none were found",
    ]


def test_only_its_owner_can_read_the_file_also_if_there_was_one(tmp_path):
    (tmp_path / "saved.yaml").write_text("old")
    (tmp_path / "saved.yaml").chmod(0o644)
    saved(tmp_path, *mesh())
    assert stat.S_IMODE((tmp_path / "saved.yaml").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["saved.yaml"]


def test_a_pipe_gets_the_resources_and_is_not_replaced(tmp_path):
    path = tmp_path / "saved.yaml"
    os.mkfifo(path)
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as reader:
        save(path, "a test", map(named, mesh()))
        assert len(read(reader.read())) == 4
    assert path.is_fifo()


def test_what_a_link_leads_to_is_written(tmp_path):
    (tmp_path / "saved.yaml").symlink_to("real.yaml")
    text, _ = saved(tmp_path, *mesh())
    assert (tmp_path / "saved.yaml").is_symlink()
    assert (tmp_path / "real.yaml").read_text() == text


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def no_room(*args, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file.yaml, "safe_dump", lambda *args, **more: "x")
    monkeypatch.setattr(Path, "replace", no_room)
    with pytest.raises(OSError, match="No space"):
        saved(tmp_path, *mesh())
    assert list(tmp_path.iterdir()) == []


def tls(**context):
    return {
        "name": "tls",
        "typed_config": {"@type": f"{TYPES}.extensions.transport_sockets.tls.v3.UpstreamTlsContext", **context},
    }


def with_secrets():
    """Every place in which people put secrets that we know of."""
    certificate = {"private_key": {"inline_string": SECRET}, "certificate_chain": {"inline_string": SECRET}}
    cluster = xds.cluster("cart") | {
        "transport_socket": tls(common_tls_context={"tls_certificates": [certificate]}),
        "metadata": {"filter_metadata": {"pay": {"password": SECRET, "deep": [{"api_key": SECRET}], "region": "west"}}},
    }
    table = xds.routes("r", xds.route("cart"))
    (host,) = table["virtual_hosts"]
    host["request_headers_to_add"] = [{"header": {"key": "authorization", "value": SECRET}}]
    host["routes"][0]["match"]["headers"] = [
        {"name": "Authorization", "exact_match": SECRET},
        {"name": "x-region", "exact_match": "west"},
    ]
    return [
        xds.listener("shop", routes="r", filters=[xds.stateful_session()]),
        table,
        cluster,
        xds.endpoints("cart", xds.locality("10.0.0.2:50051")),
    ]


def known(resources):
    """Those that can be made with the messages that are installed here."""
    made = []
    for each in resources:
        try:
            made.append(named(each))
        except ValueError as error:
            pytest.fail(f"the test's own resource is wrong: {error}")
    return made


def test_no_secret_is_in_the_file(tmp_path):
    path = tmp_path / "saved.yaml"
    packed = known(with_secrets())
    assert all(SECRET.encode() in bytes(each.value) for _, each in packed[1:3])
    save(path, "a test", packed)
    text = path.read_text()
    assert SECRET not in text
    assert "west" in text, "what is no secret stays"
    assert '# - CDS resource "cart": transport_socket\n' in text
    assert '# - CDS resource "cart": metadata.filter_metadata.pay.password\n' in text
    assert '# - RDS resource "r": virtual_hosts[0].routes[0].match.headers[0].exact_match\n' in text
    data = yaml.safe_load(text)
    (route,) = next(each for each in data if "virtual_hosts" in each)["virtual_hosts"][0]["routes"]
    assert route["match"]["headers"] == [
        {"name": "Authorization", "string_match": {"exact": "left-out"}},
        {"name": "x-region", "exact_match": "west"},
    ]


@pytest.mark.parametrize(
    "name", ["apiKey", "API-KEY", "privateKey", "Password", "passwd", "clientSecret", "inlineBytes"]
)
def test_a_field_that_speaks_of_a_secret_is_left_out_however_it_is_spelt(tmp_path, name):
    text, _ = saved(tmp_path, xds.cluster("cart") | {"metadata": {"filter_metadata": {"pay": {name: SECRET}}}})
    assert SECRET not in text
    assert f"metadata.filter_metadata.pay.{name}\n" in text


def test_a_query_parameter_that_speaks_of_a_secret_is_left_out_and_the_file_can_be_read(tmp_path):
    table = xds.routes("r", xds.route("cart"))
    (host,) = table["virtual_hosts"]
    host["routes"][0]["match"]["query_parameters"] = [{"name": "token", "string_match": {"exact": SECRET}}]
    text, _ = saved(tmp_path, table)
    assert SECRET not in text
    assert read_resource_file(text).problems == ()


def test_a_name_with_a_line_end_stays_in_its_comment(tmp_path):
    name = "cart\n- evil: true"
    text, _ = saved(tmp_path, xds.cluster(name) | {"transport_socket": tls()})
    assert not [line for line in text.splitlines() if line.startswith("- evil")]
    assert yaml.safe_load(text)[0]["name"] == name


def test_of_a_filter_that_nobody_knows_the_type_is_saved_and_nothing_else(tmp_path):
    """A client ignores an optional one, and refuses another: so it does with what was saved."""
    name = "type.googleapis.com/envoy.extensions.filters.http.oauth2.v3.OAuth2"
    script = {"name": "login", "typed_config": {"@type": f"{TYPES}.config.route.v3.Route"}, "is_optional": True}
    listener = protos.from_json(xds.listener("shop", routes="r", filters=[script]))
    route = f"{TYPES}.config.route.v3.Route".encode()
    unknown = name.encode() + b"\x12" + bytes([len(SECRET)]) + SECRET.encode()
    assert route in listener.value
    message = protos.Listener.FromString(listener.value)
    manager = protos.HttpConnectionManager.FromString(message.api_listener.api_listener.value)
    manager.http_filters[0].typed_config.MergeFromString(b"\x0a" + bytes([len(name)]) + unknown)
    message.api_listener.api_listener.Pack(manager)
    line = save(tmp_path / "saved.yaml", "a test", [("shop", protos.pack(message))])
    text = (tmp_path / "saved.yaml").read_text()
    assert SECRET not in text and name in text and line.endswith("1 resource; 1 field left out")
    assert f'# - LDS resource "shop": the content of {name}\n' in text
    assert read_resource_file(text).problems == ()


def test_a_resource_that_only_its_wrapper_names_gets_its_name_in_the_file(tmp_path):
    path, name = tmp_path / "saved.yaml", "xdstp://m/envoy.config.endpoint.v3.ClusterLoadAssignment/cart"
    unnamed = protos.from_json(xds.endpoints("", xds.locality("10.0.0.2:50051")))
    save(path, "a test", [(name, unnamed)])
    assert [each["cluster_name"] for each in read_resource_file(path.read_text()).resources.values()] == [name]


# -- from where


async def test_a_control_plane_is_asked_for_all_that_the_target_needs(autojump_clock, tmp_path):
    network, plane = MemoryNetwork(), ManagementServer()
    plane.put(*mesh(), xds.cluster("other"))
    bootstrap = parse(xds.bootstrap("10.0.0.1:18000"))
    async with plane.serve("10.0.0.1:18000", network):
        found = await sources.from_control_plane(bootstrap, "xds:///shop", network, 5)
    save(tmp_path / "saved.yaml", "it", found)
    assert [protos.from_json(each) for each in read((tmp_path / "saved.yaml").read_text())] == [
        protos.from_json(each) for each in mesh()
    ]
    assert network.attempts.keys() == {"10.0.0.1:18000"}, "no host was called"


async def test_a_target_that_is_not_there_is_an_error(autojump_clock):
    network, plane = MemoryNetwork(), ManagementServer()
    async with plane.serve("10.0.0.1:18000", network):
        with pytest.raises(sources.RecordError, match="xds:///shop: its resources did not come within 5 s"):
            await sources.from_control_plane(parse(xds.bootstrap("10.0.0.1:18000")), "xds:///shop", network, 5)


async def test_a_resource_that_does_not_come_is_named_and_is_left_out_of_a_longer_recording(autojump_clock):
    network, plane = MemoryNetwork(), ManagementServer()
    plane.put(*mesh()[:3])
    bootstrap = parse(xds.bootstrap("10.0.0.1:18000"))
    async with plane.serve("10.0.0.1:18000", network):
        with pytest.raises(sources.RecordError, match=r'EDS resource "cart" did not come within 5 s; .*--within 20s'):
            await sources.from_control_plane(bootstrap, "xds:///shop", network, 5)
        assert len(await sources.from_control_plane(bootstrap, "xds:///shop", network, 20)) == 3


async def test_recording_does_not_use_the_programs_cache(autojump_clock, tmp_path):
    network, plane = MemoryNetwork(), ManagementServer()
    plane.put(*mesh()[:3])
    bootstrap = parse(xds.bootstrap("10.0.0.1:18000") | {"trxds.cache": {"directory": str(tmp_path / "cache")}})
    async with plane.serve("10.0.0.1:18000", network):
        await sources.from_control_plane(bootstrap, "xds:///shop", network, 20)
    assert not (tmp_path / "cache").exists()


async def test_both_commands_save_what_the_client_has(tmp_path):
    plane, admin = ManagementServer(), f"unix:{tmp_path}/admin"
    plane.put(*mesh())
    async with plane.serve() as address:
        bootstrap = tmp_path / "bootstrap.json"
        bootstrap.write_text(str(xds.bootstrap(address)).replace("'", '"'))
        async with trxds.open_channel("xds:///shop", bootstrap=bootstrap, admin=admin) as channel:
            await channel.explain("/shop.Cart/Add", timeout=10)
            for number, command in enumerate(
                (
                    ["check", str(bootstrap), "--connect", "--target", "xds:///shop"],
                    ["xds", admin],
                )
            ):
                path = tmp_path / f"{number}.yaml"
                words = [*command, "--save", str(path)]
                done = await trio.to_thread.run_sync(lambda words=words: CliRunner().invoke(main, words))
                assert done.exit_code == 0, done.output
                assert done.output.splitlines()[-1] == f"{path}: 4 resources; 0 fields left out"
                assert [protos.from_json(each) for each in read(path.read_text())] == [
                    protos.from_json(each) for each in mesh()
                ]


async def test_of_different_versions_in_a_programs_channels_the_newest_is_saved(tmp_path):
    old, new = ManagementServer(), ManagementServer()
    old.put(*mesh())
    new.put(*mesh()[:3], xds.endpoints("cart", xds.locality("10.0.0.3:50051")))
    async with AsyncExitStack() as stack:
        channels = []
        for plane in (old, new):
            bootstrap = xds.bootstrap(await stack.enter_async_context(plane.serve()))
            channel = await stack.enter_async_context(trxds.open_channel("xds:///shop", bootstrap=bootstrap))
            await channel.explain("/shop.Cart/Add", timeout=10)
            channels.insert(0, channel)
        admin = await stack.enter_async_context(serve(*channels, address=f"unix:{tmp_path}/admin"))
        found = await sources.from_program(admin, Access())
    line = save(tmp_path / "saved.yaml", "it", found)
    text = (tmp_path / "saved.yaml").read_text()
    assert [each["name"] if "name" in each else each["cluster_name"] for each in read(text)] == [
        "shop",
        "r",
        "cart",
        "cart",
    ]
    assert "10.0.0.3" in text and "10.0.0.2" not in text
    assert 'here is the newest:\n# - EDS resource "cart"\n' in text
    assert line.endswith("1 resource of which channels have different versions")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "FILE", "--save", "x"], "--save needs --connect and --target"),
        (["xds", "unix:/x", "--save", "x", "--json"], "leave --watch and --json out"),
    ],
)
def test_an_option_that_does_not_fit_is_a_usage_error(tmp_path, words, message):
    bootstrap = tmp_path / "bootstrap.json"
    bootstrap.write_text("{}")
    done = CliRunner().invoke(main, [str(bootstrap) if each == "FILE" else each for each in words])
    assert done.exit_code == 2 and message in done.stderr


def test_a_program_that_does_not_run_is_an_error(tmp_path):
    done = CliRunner().invoke(main, ["xds", f"unix:{tmp_path}/none", "--save", str(tmp_path / "x.yaml")])
    assert done.exit_code == 3 and "does the program run, with open_channel(..., admin=" in done.stderr
    assert not (tmp_path / "x.yaml").exists()


async def test_a_server_that_is_no_program_of_trxds_is_an_error():
    async def greet(stream: trio.SocketStream) -> None:
        await stream.send_all(b"220 mail.example ESMTP\r\n")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, greet, 0, host="127.0.0.1"))
        address = f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        with pytest.raises(sources.RecordError, match=r"is it the address of admin=\?$"):
            await sources.from_program(address, Access())
        nursery.cancel_scope.cancel()


async def test_resources_of_files_are_recorded_as_those_of_a_control_plane(tmp_path):
    mesh_file, bootstrap = tmp_path / "mesh.yaml", tmp_path / "bootstrap.json"
    mesh_file.write_text(yaml.safe_dump(mesh()))
    bootstrap.write_text(f'{{"xds_servers": [{{"server_uri": "file://{mesh_file}"}}]}}')
    words = ["check", str(bootstrap), "--connect", "--target", "xds:///shop", "--save", str(tmp_path / "x.yaml")]
    done = await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, words))
    assert done.exit_code == 0, done.output
    assert len(read((tmp_path / "x.yaml").read_text())) == 4
