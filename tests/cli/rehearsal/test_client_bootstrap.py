"""`trxds rehearse --bootstrap`: the clients' bootstrap, as far as it counts without a network."""

import json

import pytest
from support.rehearsal_files import HOSTS, SMALL, resources

from trxds.cli.rehearsal import client_bootstrap
from trxds.testing import resources as xds
from trxds.xds.bootstrap import parse

FEDERATED = "xdstp://east/envoy.config.listener.v3.Listener/shop"
TEMPLATE = "client_default_listener_resource_name_template"


def document(**members):
    servers = [{"server_uri": "10.0.0.5:18000", "channel_creds": [{"type": "insecure"}]}]
    return {"xds_servers": servers, "node": {"id": "web"}, **members}


def targets(listener, bootstrap=None):
    listed = [xds.listener(listener, routes="r")]
    made = client_bootstrap.from_resources(listed, delta=False)
    return client_bootstrap.targets(listed, parse(made if bootstrap is None else bootstrap))


@pytest.fixture
def bootstrap_file(tmp_path):
    """Writes a bootstrap; returns the path."""

    def write(content):
        path = tmp_path / "bootstrap.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


# -- targets


def test_a_listener_of_an_authority_has_a_target_with_it_and_needs_no_bootstrap():
    assert targets(FEDERATED) == ({"xds://east/shop": FEDERATED}, [])
    assert client_bootstrap.from_resources([xds.listener(FEDERATED, routes="r")], delta=False)["authorities"] == {
        "east": {}
    }


def test_an_authority_with_a_slash_is_percent_coded_in_a_target():
    listener = FEDERATED.replace("east", "east%2F1")
    assert targets(listener) == ({"xds://east%2F1/shop": listener}, [])


@pytest.mark.parametrize(
    ("listener", "bootstrap", "target"),
    [
        ("grpc/shop", document(**{TEMPLATE: "grpc/%s"}), "xds:///shop"),
        ("shop/shop", document(**{TEMPLATE: "%s/%s"}), "xds:///shop"),
        ("50%", document(), "xds:///50%25"),
        ("shop?x#y", document(), "xds:///shop%3Fx%23y"),
        (FEDERATED, document(**{TEMPLATE: FEDERATED.replace("shop", "%s")}, authorities={"east": {}}), "xds:///shop"),
        (f"{FEDERATED}%20eu", document(authorities={"east": {}}), "xds://east/shop eu"),
        (
            f"{FEDERATED}?b=2&a=1",
            document(
                authorities={
                    "east": {
                        "client_listener_resource_name_template": FEDERATED.replace("shop", "%s") + "?a=1&b=2",
                    }
                }
            ),
            "xds://east/shop",
        ),
    ],
)
def test_a_target_is_the_name_of_which_a_template_makes_the_listener(listener, bootstrap, target):
    assert targets(listener, bootstrap) == ({target: listener}, [])


@pytest.mark.parametrize(
    ("listener", "bootstrap"),
    [
        ("shop", document(**{TEMPLATE: "grpc/%s"})),
        ("shop/", document()),
        ("shop/cart", document(**{TEMPLATE: "%s/%s"})),
        ("shop", document(**{TEMPLATE: "shop"})),  # of any name it makes this listener
    ],
)
def test_a_listener_that_no_template_makes_has_no_target(listener, bootstrap):
    assert targets(listener, bootstrap) == ({}, [listener])


# -- what is used of a file


def test_a_rehearsal_asks_for_the_listener_that_the_template_makes(files, run, bootstrap_file):
    listed = resources(*HOSTS)
    listed[0] = xds.listener("grpc/shop", routes="r", filters=[xds.stateful_session()])
    before = files("before", listed)
    given = bootstrap_file(document(**{TEMPLATE: "grpc/%s"}))
    done = run(before, before, *SMALL, "--bootstrap", given, "--expect", "failed==0 untried==0")
    assert done.exit_code == 0, done.output
    assert list(run.plans[0].load.targets) == ["xds:///shop"]


def test_a_listener_without_a_target_is_noted(files, run, bootstrap_file):
    listed = [xds.listener("grpc/shop", routes="r"), *resources(*HOSTS)]
    given = bootstrap_file(document(**{TEMPLATE: "grpc/%s"}))
    before = files("before", listed)
    done = run(before, before, *SMALL, "--bootstrap", given, "--expect", "untried==1")
    assert "note: no target of the bootstrap's templates names the listener 'shop'" in done.stdout
    assert done.exit_code == 0


def test_a_file_without_a_listener_that_a_target_names_is_a_usage_error(files, run, bootstrap_file):
    before = files("before", resources(*HOSTS))
    done = run(before, before, "--bootstrap", bootstrap_file(document(**{TEMPLATE: "grpc/%s"})))
    assert done.exit_code == 2 and "name one by --target xds:///NAME" in done.stderr


def test_clients_know_only_the_authorities_and_providers_of_the_file():
    provider = {"plugin_name": "file_watcher", "config": {"ca_certificate_file": "/etc/ca.pem"}}
    given = parse(document(authorities={"east": {}}, certificate_providers={"mesh": provider}))
    made = parse(client_bootstrap.from_file(given, delta=False))
    assert list(made.authorities) == ["east"] and list(made.certificate_providers) == ["mesh"]
    assert made.certificate_providers["mesh"] != given.certificate_providers["mesh"]  # its files are not read


def test_a_cluster_with_a_provider_that_the_bootstrap_lacks_is_noted_and_refused(files, run, bootstrap_file):
    tls = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
    ca = {"ca_certificate_provider_instance": {"instance_name": "mesh"}}
    listed = resources(*HOSTS)
    listed[2]["transport_socket"] = {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {"@type": tls, "common_tls_context": {"validation_context": ca}},
    }
    before = files("before", listed)
    assert run(before, before, *SMALL, "--expect", "refused==0").exit_code == 0
    done = run(before, before, *SMALL, "--bootstrap", bootstrap_file(document()), "--expect", "refused==1")
    assert "clients refuse CDS resource" in done.stdout and done.exit_code == 0


def test_the_features_of_the_first_server_and_the_node_are_used():
    node = {"id": "web", "cluster": "c", "locality": {"zone": "a"}, "metadata": {"team": "shop"}}
    given = document(node=node)
    given["xds_servers"][0]["server_features"] = ["ignore_resource_deletion", "xds_v3"]
    given["xds_servers"].append({"server_uri": "10.0.0.6:1", "channel_creds": [{"type": "insecure"}]})
    made = parse(client_bootstrap.of_client(client_bootstrap.from_file(parse(given), delta=True), "client-3"))
    (server,) = made.servers
    assert server.features == {"ignore_resource_deletion", "xds_v3", "trxds.delta"}
    assert (made.node.id, made.node.cluster, made.node.locality.zone) == ("client-3", "c", "a")
    assert made.node.metadata == {"team": "shop"}


def test_a_bootstrap_may_select_the_incremental_protocol(files, run, bootstrap_file):
    given = document()
    given["xds_servers"][0]["server_features"] = ["trxds.delta"]
    before = files("before", resources(*HOSTS))
    done = run(before, before, *SMALL, "--bootstrap", bootstrap_file(given), "--json")
    assert json.loads(done.stdout)["rehearsal"]["protocol"] == "delta"


def test_what_is_not_used_of_a_bootstrap_is_noted():
    provider = {"plugin_name": "file_watcher", "config": {"ca_certificate_file": "/etc/ca.pem"}}
    given = document(certificate_providers={"mesh": provider}, **{"trxds.cache": {"directory": "/var/cache/x"}})
    given["xds_servers"].append({"server_uri": "10.0.0.6:1", "channel_creds": [{"type": "tls"}]})
    assert client_bootstrap.unused_parts(parse(given)) == (
        "the simulated control plane is in place of 10.0.0.5:18000 and 1 more server; not used either: the node's id "
        "(each client has its own), the servers' credentials, the files of certificate providers, the cache on disk"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "no valid JSON at line 1"), ({}, "xds_servers: needs at least one server")],
)
def test_a_bad_bootstrap_ends_the_command_with_its_problems(files, run, bootstrap_file, content, message):
    before, given = files("before", resources(*HOSTS)), bootstrap_file(content)
    done = run(before, before, "--bootstrap", given)
    assert done.exit_code == 1
    assert f"{given}: {message}" in done.stderr and f"`trxds check {given}` has the lines" in done.stderr
