"""Blocks of the documents that are no Python: files are good ones, and what is shown of an output comes out so.

Those of docs/operating.md are held by tests/cli/test_operating.py.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import ssl
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from click.testing import CliRunner
from support.mesh import Mesh
from support.pki import Authority
from support.transcript import comparable
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds.admin import state_stream
from trxds.cli.check import check
from trxds.cli.control_plane import read_for_clients
from trxds.cli.main import main
from trxds.client.custom_filter import filter_types
from trxds.filters import FilterType
from trxds.resources.context import ParseContext
from trxds.resources.experiments import Experiments
from trxds.resources.lb_policy import CustomPolicy, parse_custom_policy
from trxds.resources.protos import from_json
from trxds.resources.slow_start import SlowStart
from trxds.resources.types import CDS, LDS
from trxds.testing import ManagementServer, MemoryNetwork, serve, unary
from trxds.testing import resources as xds
from trxds.transport.spiffe_bundles import parse_bundle_map

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^ *```(.*)$", re.MULTILINE)
LEFT_OUT = re.compile(
    r"^<!-- (?:not run: [^\n]+|run by tests/[\w/.]+) -->\n\n```\w+\n.*?^```$", re.MULTILINE | re.DOTALL
)
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^|\n)(?![ ]*[-*\d])[^\n]*\n\n((?: {4,}[^\n]+\n)+)")
RUN = {"python", "proto"}  # by tests/test_docs.py, wherever they are
READ = {
    ("drain.md", "console"),  # the tutorial, by tests/test_tutorial.py
    ("drain.md", "yaml"),
    ("rollout.md", "console"),
    ("rollout.md", "yaml"),
    ("sticky-session.md", "console"),
    ("sticky-session.md", "yaml"),
    ("state-stream.md", "console"),
    ("generate.md", "console"),
    ("operating.md", "console"),
    ("operating.md", "text"),  # by tests/resources/test_missing_references.py
    ("routing.md", "text"),
    ("routing.md", "yaml"),
    ("logs.md", "text"),  # by tests/stories/test_logged_decisions.py
    ("quick-start.md", "json"),
    ("bootstrap.md", "json"),
    ("retries.md", "json"),  # by tests/test_how_to.py
    ("mirroring.md", "yaml"),
    ("retries.md", "yaml"),
    ("service-config.md", "json"),  # by tests/test_reference.py
    ("README.md", "yaml"),  # by tests/peers/test_documented_session.py
    ("quick-start.md", "yaml"),
    ("sessions.md", "yaml"),
    ("security.md", "json"),
    ("security.md", "text"),
    ("testing.md", "toml"),  # by tests/testing/test_pytest_plugin.py
    ("writing-a-policy.md", "json"),
    ("writing-a-filter.md", "json"),
    ("call-from-the-shell.md", "console"),  # by tests/cli/call/test_documented_calls.py
    ("rehearse-a-change.md", "console"),  # by tests/cli/test_rehearsal_document.py
    ("rehearse-a-change.md", "yaml"),
    ("go-control-plane.md", "go"),  # by tests/peers/test_go_control_plane_guide.py
    ("go-control-plane.md", "json"),
    ("istio.md", "json"),  # by tests/peers/test_istio.py
    ("istio.md", "yaml"),
    ("kubernetes.md", "yaml"),  # by tests/test_how_to_guides.py
    ("survive-a-control-plane-outage.md", "json"),  # by tests/stories/test_guides_to_outages.py
    ("xds-from-files.md", "json"),
    ("xds-from-files.md", "yaml"),
}


def blocks(document: str, language: str) -> list[str]:
    """What is fenced as that language there."""
    text = (ROOT / document if document == "README.md" else ROOT / "docs" / document).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_block_is_of_a_kind_that_a_test_looks_at(document: Path) -> None:
    """Blocks of other tests say `<!-- run by tests/... -->`; those of none have a reason, `<!-- not run: ... -->`."""
    fences = FENCE.findall(LEFT_OUT.sub("", document.read_text("utf-8")))
    assert set(fences[1::2]) <= {""}, "a fence that does not close"
    unread = [language for language in fences[::2] if language not in RUN and (document.name, language) not in READ]
    assert unread == []


@pytest.mark.parametrize("document", DOCUMENTS[1:], ids=lambda document: document.name)
def test_a_block_is_fenced_so_that_it_says_what_it_is(document: Path) -> None:
    # A fence in a list is replaced by an item, because what follows it may still be of the list.
    prose = FENCED.sub(lambda fence: "- " if fence[0].startswith(" ") else "", document.read_text("utf-8"))
    assert INDENTED.findall(prose) == []


# -- files


@pytest.fixture
def mesh_files(tmp_path: Path) -> Path:
    """What documents have under /var/run/mesh."""
    authority = trustme.CA()
    ours = authority.issue_cert("web-1")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    ours.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    ours.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    (tmp_path / "token").write_text("e30." + base64.urlsafe_b64encode(b'{"exp": 1900000000}').decode() + ".c2ln")
    return tmp_path


def test_the_first_bootstrap_is_plain_text_and_nothing_else_is_unusual() -> None:
    (text,) = blocks("quick-start.md", "json")
    (remark,) = check(text).findings
    assert remark.weight == "warning" and "plain text" in remark.text


def test_the_bundle_map_of_the_page_on_security_is_read() -> None:
    authority = base64.b64encode(Authority().der).decode()
    text = re.sub(r"MIIB[^\"]*", authority, blocks("security.md", "json")[2])
    found = parse_bundle_map(text.encode(), "of the page")
    assert {name: len(bundle) for name, bundle in found.domains.items()} == {"shop.example": 1, "bank.example": 0}


def test_the_bootstraps_of_the_page_on_security_have_nothing_wrong_or_unusual(mesh_files: Path) -> None:
    first, providers, _ = blocks("security.md", "json")
    for document in (json.loads(first), json.loads(first) | json.loads(providers)):
        assert check(json.dumps(document).replace("/var/run/mesh", str(mesh_files))).findings == ()


def test_the_bootstrap_of_the_reference_has_nothing_wrong_or_unusual(mesh_files: Path) -> None:
    (text,) = blocks("reference/bootstrap.md", "json")
    assert check(text.replace("/var/run/mesh", str(mesh_files))).findings == ()


def test_the_documented_resources_are_what_clients_take() -> None:
    (text,) = blocks("quick-start.md", "yaml")
    reading = read_for_clients(text)
    assert len(reading.resources) == 4
    assert (reading.problems, reading.remarks) == ((), ())


def one_listener(filters: Sequence[xds.Resource]) -> list[xds.Resource]:
    return [
        xds.listener("greeter", routes="r", filters=filters),
        xds.routes("r", xds.route("greeter-cluster")),
        xds.cluster("greeter-cluster"),
    ]


async def peers_of_a_session(documented: Sequence[xds.Resource]) -> tuple[set[str], set[str]]:
    """Return the hosts of 20 calls in one session, and of 20 calls outside, of two hosts."""

    async def echo(request: bytes, call: object) -> bytes:
        return request

    network, plane = MemoryNetwork(), ManagementServer()
    path = "/helloworld.Greeter/SayHello"
    async with (
        serve({path: unary(echo)}, address="10.0.0.1:50051", network=network) as first,
        serve({path: unary(echo)}, address="10.0.0.2:50051", network=network) as second,
        plane.serve("plane:1", network) as address,
    ):
        plane.put(*documented, xds.endpoints("greeter-cluster", xds.locality(first.address, second.address)))
        async with trxds.open_channel("xds:///greeter", bootstrap=xds.bootstrap(address), network=network) as channel:
            await channel.method(path)(b"", wait_for_ready=True)
            await wait_all_tasks_blocked()
            async with channel.session() as session:
                within = {(await session.method(path).with_call(b""))[1].peer for _ in range(20)}
            return within, {(await channel.method(path).with_call(b""))[1].peer for _ in range(20)}


async def test_a_session_by_the_resources_of_the_quick_start_stays_on_one_of_two_hosts() -> None:
    (text,) = blocks("quick-start.md", "yaml")
    documented = [each for each in yaml.safe_load(text) if "cluster_name" not in each]
    within, outside = await peers_of_a_session(documented)
    assert (len(within), len(outside)) == (1, 2)


async def test_a_session_by_the_filter_of_the_page_on_sessions_stays_on_one_of_two_hosts() -> None:
    (text,) = blocks("sessions.md", "yaml")
    *filters, router = yaml.safe_load(text)["http_filters"]
    assert router["name"] == "router"
    within, outside = await peers_of_a_session(one_listener(filters))
    assert (len(within), len(outside)) == (1, 2)


def test_the_documented_policy_in_a_cluster_is_the_program_s_own() -> None:
    (text,) = blocks("writing-a-policy.md", "json")
    resource = from_json(xds.cluster("cart") | json.loads(text))
    own = {"my.pkg.MainAndSpare": partial(parse_custom_policy, dict)}
    parsed = CDS.read(resource, ParseContext(struct_policies=own))
    assert parsed.errors == ()
    assert repr(CustomPolicy("my.pkg.MainAndSpare", {"spare": 1})) in repr(parsed.value)


def test_the_documented_slow_start_is_that_of_a_cluster() -> None:
    (text,) = blocks("routing.md", "yaml")
    resource = from_json(xds.cluster("cart") | yaml.safe_load(text))
    parsed = CDS.read(resource, ParseContext(experiments=Experiments(slow_start=True)))
    assert parsed.errors == ()
    assert repr(SlowStart(60.0)) in repr(parsed.value)


# -- outputs


def test_the_documented_filter_and_its_override_are_the_program_s_own() -> None:
    (text,) = blocks("writing-a-filter.md", "json")[:1]
    entry = json.loads(text)
    listener = from_json(xds.listener("shop", routes="r", filters=[entry]))
    parsed = LDS.read(
        listener, ParseContext(http_filters=filter_types({"my.pkg.Tenant": FilterType(lambda *made: None)}))
    )
    assert parsed.errors == ()
    assert parsed.value.http_filters[0].config.settings == {"header": "x-tenant"}


def test_check_says_what_the_document_shows(mesh_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the file that stands above it, with two mistakes."""
    good, shown = blocks("security.md", "json")[0], blocks("security.md", "text")[0]
    bad = good.replace("ca_certificate_file", "ca_certificates_file").replace('"web-1"', "1")
    monkeypatch.chdir(mesh_files)
    Path("bootstrap.json").write_text(bad.replace("/var/run/mesh", str(mesh_files)), "utf-8")
    done = CliRunner().invoke(main, ["check", "bootstrap.json"])
    assert (done.exit_code, done.output) == (1, shown)


def test_the_command_of_the_page_on_stubs_writes_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "generate.md").read_text("utf-8")
    (command,) = re.findall(r"^\$ trxds (generate .*)$", text, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    Path("greeter.proto").write_text(blocks("generate.md", "proto")[0], "utf-8")
    done = CliRunner().invoke(main, command.split())
    assert done.exit_code == 0, done.output
    written = {path.name for path in tmp_path.iterdir()} - {"greeter.proto"}
    assert written == {"greeter_pb2.py", "greeter_pb2.pyi", "greeter_trxds.py", "greeter_trxds_sync.py"}
    assert all(f"`{name}`" in text for name in written)


async def test_a_snapshot_of_the_state_stream_looks_as_documented(autojump_clock) -> None:
    shown = json.loads(blocks("state-stream.md", "console")[0].splitlines()[1])["snapshot"]
    async with Mesh.run(1) as mesh, mesh.channel() as channel, state_stream.open(channel) as states:
        await channel.method("/shop.Cart/Add")(b"")
        state = await states.snapshot(["channels"])
    assert shapes(state) == shapes(shown)
    assert state["channels"]["shop"] | {"calls": 7} == shown["channels"]["shop"]


def shapes(value: Any) -> Any:
    """Names and types, without values."""
    return {key: shapes(each) for key, each in value.items()} if isinstance(value, dict) else type(value)


async def test_an_explanation_comes_out_as_the_page_on_routing_shows_it(autojump_clock) -> None:
    text = (ROOT / "docs" / "routing.md").read_text("utf-8")
    (shown,) = blocks("routing.md", "text")
    (question,) = re.findall(r"channel\.explain\((.*)\)\)$", text, re.MULTILINE)
    method, metadata = ast.literal_eval(question)
    async with Mesh.run(4) as mesh:
        for cluster, hosts in (("v1", mesh.hosts[3:]), ("v2", mesh.hosts[:3])):
            mesh.cluster(cluster)
            mesh.endpoints(cluster, hosts)
        mesh.plane.put(xds.listener("shop", routes="shop", filters=[xds.stateful_session()]), ROUTES_OF_THE_EXAMPLE)
        async with mesh.channel() as channel:
            await channel.method(method)(b"", metadata=metadata)
            await wait_all_tasks_blocked()
            channel._state.data_plane.current.selector.random.seed(1)  # by which v1 is drawn, as on the page
            told = await channel.explain(method, metadata)
    assert comparable(str(told)) == comparable(shown)


_PER_ROUTE = {
    "@type": "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute",
    "stateful_session": {"session_state": xds.stateful_session()["typed_config"]["session_state"]},
}
_ACTION = xds.route({"v1": 90, "v2": 10})["route"] | {"max_stream_duration": {"max_stream_duration": "10s"}}
ROUTES_OF_THE_EXAMPLE = xds.routes(
    "shop",
    {"match": {"prefix": "", "headers": [{"name": "user", "exact_match": "test"}]}, "route": {"cluster": "v2"}},
    {
        "match": {"prefix": "/shop.Cart/"},
        "route": _ACTION,
        "typed_per_filter_config": {"stateful_session": _PER_ROUTE},
    },
)


async def test_a_host_with_another_name_in_its_certificate_is_refused_in_the_words_shown(autojump_clock) -> None:
    authority, network = trustme.CA(), MemoryNetwork()
    its = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("cart").configure_cert(its)
    credentials = trxds.tls(roots=authority.cert_pem.bytes())
    async with (
        serve(address="10.0.0.7:443", network=network, tls=its),
        trxds.open_channel("ipv4:10.0.0.7:443", authority="shop", credentials=credentials, network=network) as channel,
    ):
        with pytest.raises(trxds.RpcError) as refusal:
            await channel.method("/shop.Cart/Add")(b"")
    assert refusal.value.status.message.endswith(blocks("security.md", "text")[1].rstrip())
