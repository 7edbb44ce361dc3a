"""Runs a plan in a process of its own: `python -m trxds.cli.rehearsal.child < plan.json > report.json`.

There Python hashes texts in the same way each time, and nothing that another part of the program did has any effect.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import subprocess
import sys

from .plan import Plan
from .report import Report
from .run import rehearse

HASH_SEED = "0"


class RehearsalError(Exception):
    """The process of a rehearsal ended without a report."""


def run_in_child(plan: Plan) -> Report:
    """Run the plan in another process, and return its report; `RehearsalError` has what that wrote if it fails."""
    environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED}
    command = [sys.executable, "-P", "-m", __name__]
    done = subprocess.run(command, input=plan.to_json(), capture_output=True, env=environment, text=True, check=False)
    if done.returncode:
        raise RehearsalError(done.stderr.strip() or f"the rehearsal's process ended with status {done.returncode}")
    report: Report = json.loads(done.stdout)
    return report


def main() -> None:
    """Run the plan of stdin, and write its report to stdout."""
    # What the clients log belongs to no program, and the report says it.
    logging.getLogger("trxds").addHandler(logging.NullHandler())
    logging.getLogger("trxds").propagate = False
    plan = Plan.from_json(sys.stdin.read())
    # Ten thousand connections live as long as the process, and to look through them again and again takes a third of
    # its time.
    gc.set_threshold(200_000, 50, 50)
    json.dump(rehearse(plan), sys.stdout)


if __name__ == "__main__":
    main()
