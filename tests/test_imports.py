"""What `import trxds` loads: nothing that only channels with a control plane need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import trxds

ROOT = Path(__file__).parent.parent

# What costs time, and who needs it.
LEFT_OUT = {
    "google": "protobuf: stubs, and xDS",
    "envoy": "xDS",
    "udpa": "xDS",
    "xds": "xDS",
    "validate": "xDS",
    "trxds.xds": "xDS",
    "trxds.resolver.xds_resolver": "xDS",
    "trxds.resources.generated_messages": "xDS",
    "trxds.lb.built_in_policies": "xDS, and service configs that name one of them",
    "trxds.admin": "the admin surface",
    "trxds.server": "the admin surface, and tests",
    "h2": "servers",
    "h11": "the admin surface",
    "yaml": "commands",
    "rich": "commands",
    "anyio": "trxds.sync",
    "asyncio": "trxds.aio",
    "opentelemetry": "trxds.otel",
    "grpc": "nobody",
}
MAX_MODULES = 290  # of trxds; 278 in November 2026
MAX_DATACLASSES = 42  # each costs half a millisecond or more at import, ten times as much as a struct (ADR 9)

DATACLASSES = """
import sys, trxds
modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "trxds"]
values = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
print(*{id(value) for value in values if "__dataclass_fields__" in vars(value)})
"""


def run(program: str) -> list[str]:
    """The words that a new interpreter prints."""
    command = [sys.executable, "-W", "error", "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=environment)
    return done.stdout.split()


def packages(modules: list[str]) -> set[str]:
    """The modules, and all packages that they are in."""
    return {".".join(each.split(".")[:length]) for each in modules for length in range(1, each.count(".") + 2)}


def test_import_trxds_leaves_out_what_a_channel_without_a_control_plane_does_not_need() -> None:
    before = packages(run("import sys, trio; print(*sys.modules)"))
    loaded = packages(run("import sys, trxds, trxds.client.open_channel; print(*sys.modules)"))
    assert LEFT_OUT.keys() & (loaded - before) == set()


def test_import_trxds_loads_no_more_modules_than_it_did() -> None:
    loaded = run("import sys, trxds; print(*sys.modules)")
    assert len([each for each in loaded if each.partition(".")[0] == "trxds"]) <= MAX_MODULES


def test_import_trxds_makes_no_more_dataclasses_than_it_did() -> None:
    made = run(DATACLASSES)
    assert 0 < len(made) <= MAX_DATACLASSES


def test_weighted_round_robin_without_a_control_plane_imports_the_messages_of_load_reports_before_a_call_brings_one():
    program = """
import sys, trio, trxds, trio.testing
config = {"loadBalancingConfig": [{"weighted_round_robin": {}}]}
async def main():
    async with trxds.open_channel("ipv4:127.0.0.1:1", service_config=config):
        with trio.move_on_after(10):
            while "xds.data.orca.v3.orca_load_report_pb2" not in sys.modules:
                await trio.testing.wait_all_tasks_blocked()
        print(*sys.modules)
trio.run(main)
"""
    loaded = set(run(program))
    assert "xds.data.orca.v3.orca_load_report_pb2" in loaded
    assert not loaded & {"envoy", "trxds.resources.generated_messages"}


def test_nothing_is_left_to_import_for_an_xds_channel_after_preload() -> None:
    program = (ROOT / "tests" / "sticky_without_grpc.py").read_text("utf-8")
    setup = "import sys, trxds.preload, trxds.testing; before = set(sys.modules)"
    after = "print(*[each for each in sys.modules if each not in before])"
    # `trxds.testing` is the control plane and the hosts, which have more messages.
    late = run(f"{setup}\nexec({program!r})\n{after}")
    assert [each for each in late if each.partition(".")[0] in {"trxds", "google", "envoy", "udpa", "xds"}] == []


def test_a_name_of_the_xds_client_is_found_without_an_import_of_it() -> None:
    (name,) = run("import trxds; print(trxds.open_xds_client.__module__)")
    assert name == "trxds.client.shared_xds_client"


def test_all_public_names_are_listed_and_can_be_imported() -> None:
    assert set(trxds.__all__) <= set(dir(trxds))
    assert run("from trxds import *; print(*sorted(name for name in dir() if not name.startswith('_')))") == sorted(
        trxds.__all__
    )


def test_another_name_is_an_attribute_error() -> None:
    (text,) = run("import trxds; print(hasattr(trxds, 'open_chanel'))")
    assert text == "False"
