"""Files of resources, and the command `trxds rehearse` in this process."""

import json

import pytest
import yaml
from click.testing import CliRunner

from trxds.cli.main import main
from trxds.cli.rehearsal import command
from trxds.cli.rehearsal.plan import Plan
from trxds.cli.rehearsal.run import rehearse


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
