"""gRPC's interoperability cases, run as any harness would, against servers that we did not write.

grpcio's service has all the features but one; Node's grpc-js compresses nothing; and on Node's bare HTTP/2 the flag of
each request is seen, which is the one. grpc-java's has all of them, as tests/peers/java/trxds/peers/TestCalls.java
makes it.
"""

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from support import java_peers
from support.programs import Programs

from trxds.interop import orca, protos
from trxds.interop.client import CASES, ORCA, SOAKS

HERE = Path(__file__).parent
NODE_MODULES = HERE.parents[1] / ".peers" / "node" / "node_modules"

CLIENT_COMPRESSION = {"client_compressed_unary", "client_compressed_streaming"}
NOT_IN_GRPC_JS = CLIENT_COMPRESSION | {"server_compressed_unary", "server_compressed_streaming"}
LONG = {"concurrent_large_unary"}
# A call of a soak has a second otherwise, which a busy machine may take.
PATIENT = ["--soak_per_iteration_max_acceptable_latency_ms=20000", "--soak_overall_timeout_seconds=60"]


@contextmanager
def serving(*command, **options):
    """The port of a server that runs as long as the block."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Client:
    """Runs `python -m trxds.interop.client`, each time in a process of its own."""

    programs: Programs
    folder: Path

    def run(self, name, port, *flags, host="127.0.0.1"):
        where = [f"--server_host={host}", f"--server_port={port}", f"--test_case={name}"]
        output, errors = self.folder / "output", self.folder / "errors"
        command = ["python", "-m", "trxds.interop.client", *where, *flags]
        status = self.programs.finish(command, output, errors)
        return Done(status, output.read_text(), errors.read_text())

    def check(self, name, port, *flags, **options):
        done = self.run(name, port, *flags, **options)
        assert (done.returncode, done.stdout) == (0, f"{name}: passed\n"), done.stderr


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("client")
    with Programs.run(HERE, os.environ) as programs:
        yield Client(programs, folder)


@pytest.fixture(scope="module")
def grpcio():
    with serving(sys.executable, str(HERE / "interop_grpcio.py")) as port:
        yield port


def node(script, tmp_path_factory):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if not NODE_MODULES.is_dir() and "CI" not in os.environ:
        pytest.skip("grpc-js is not installed; say make test, which installs it")
    descriptors = FileDescriptorSet()
    protos.TEST_SERVICE.file.CopyToProto(descriptors.file.add())
    file = tmp_path_factory.mktemp("node") / "test.binpb"
    file.write_bytes(descriptors.SerializeToString())
    environ = {**os.environ, "NODE_PATH": str(NODE_MODULES)}
    return serving("node", str(HERE / "node" / script), str(file), env=environ)


@pytest.fixture(scope="module")
def grpc_js(tmp_path_factory):
    with node("server.js", tmp_path_factory) as port:
        yield port


@pytest.fixture(scope="module")
def node_http2(tmp_path_factory):
    with node("compressed.js", tmp_path_factory) as port:
        yield port


@pytest.fixture(scope="module")
def grpc_java(java_programs):
    with java_peers.serving("Backend", "-name", "one", "-deflate", "true") as address:
        yield address.rpartition(":")[2]


@pytest.mark.parametrize("name", sorted((CASES.keys() | ORCA.keys() | SOAKS.keys()) - CLIENT_COMPRESSION))
def test_the_case_holds_against_grpcio(name, grpcio, client):
    client.check(name, grpcio, *PATIENT)


@pytest.mark.parametrize("name", sorted((CASES.keys() | ORCA.keys() | SOAKS.keys()) - NOT_IN_GRPC_JS - LONG))
def test_the_case_holds_against_grpc_js(name, grpc_js, client):
    client.check(name, grpc_js, *PATIENT)


@pytest.mark.parametrize("name", sorted((CASES.keys() | ORCA.keys() | SOAKS.keys()) - LONG))
def test_the_case_holds_against_grpc_java(name, grpc_java, client):
    client.check(name, grpc_java, *PATIENT)


@pytest.mark.parametrize("name", sorted(CLIENT_COMPRESSION))
def test_the_case_holds_against_nodes_http2(name, node_http2, client):
    client.check(name, node_http2)


def test_pick_first_stays_with_one_of_several_servers(grpcio, client):
    with serving(sys.executable, str(HERE / "interop_grpcio.py"), "--host", "127.0.0.2", "--port", grpcio, "--id", "2"):
        client.check("pick_first_unary", grpcio, host="127.0.0.2,127.0.0.1")


def test_pick_first_stays_with_one_of_several_servers_of_grpc_java(grpc_java, client):
    with java_peers.serving("Backend", "-name", "other", "-host", "127.0.0.2", "-port", grpc_java):
        client.check("pick_first_unary", grpc_java, host="127.0.0.2,127.0.0.1")


def test_a_server_with_tls_has_to_prove_the_overridden_name(tmp_path, client):
    authority = trustme.CA()
    server = authority.issue_cert("foo.test.example")
    ca, chain, key = (tmp_path / name for name in ("ca.pem", "chain.pem", "key.pem"))
    authority.cert_pem.write_to_path(ca)
    server.cert_chain_pems[0].write_to_path(chain)
    server.private_key_pem.write_to_path(key)
    with serving(sys.executable, str(HERE / "interop_grpcio.py"), "--tls", str(chain), str(key)) as port:
        tls = ["--use_tls=true", "--use_test_ca=true", f"--ca_file={ca}"]
        client.check("large_unary", port, *tls, "--server_host_override=foo.test.example")
        refused = client.run("large_unary", port, *tls)
        assert refused.returncode == 1
        assert "127.0.0.1" in refused.stderr


@pytest.mark.parametrize(
    ("name", "saw"),
    [
        ("client_compressed_unary", "the probe, uncompressed, succeeded, should have failed"),
        ("server_compressed_unary", "whether the reply came compressed: [False], should be [True]"),
    ],
)
def test_a_case_that_does_not_hold_exits_1_and_says_what_it_saw(name, saw, grpc_js, client):
    done = client.run(name, grpc_js)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{name}: failed: {saw}\n"


def test_an_unknown_case_lists_those_that_there_are(client):
    done = client.run("no_such_case", 1)
    assert done.returncode == 2
    assert "large_unary" in done.stderr and "orca_oob" in done.stderr


def test_additional_metadata_goes_with_every_call(grpcio, client):
    """The server echoes the last one of that name, which is not what the case sent."""
    done = client.run("custom_metadata", grpcio, "--additional_metadata=user:7;x-grpc-test-echo-initial:a:b")
    assert done.returncode == 1
    assert done.stderr.startswith("custom_metadata: failed: x-grpc-test-echo-initial as the server echoes it: 'a:b'")


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("--additional_metadata=user", "--additional_metadata: pairs of key:value, with semicolons between them"),
        ("--additional_metadata=us er:7", "--additional_metadata: metadata[0]: its key has a blank at position 2"),
        ("--service_config_json={", "--service_config_json: service config: no valid JSON"),
        ('--service_config_json={"loadBalancingConfig":[{"round_rob":{}}]}', "names no policy that is known here"),
    ],
)
def test_a_flag_that_makes_no_sense_is_named(flag, problem, client):
    done = client.run("empty_unary", 1, flag)
    assert done.returncode == 2
    assert problem in done.stderr and "Traceback" not in done.stderr


def test_a_harness_may_name_the_policy_of_the_orca_cases_itself(grpcio, client):
    client.check("orca_per_rpc", grpcio, f"--service_config_json={json.dumps(orca.SERVICE_CONFIG)}")
