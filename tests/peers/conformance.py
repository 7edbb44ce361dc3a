"""Play the recorded scenarios with our driver; what differs once is played a second time.

The suite's server has a race of its own. grpcio's server sends an error as Trailers-Only when its trailers
are ready before its initial metadata are written (1 of 6,000 calls on a busy machine); A6 lets a client retry the one
and not the other, so that scenario 41 counts another attempt. A defect of ours differs both times.
"""

from __future__ import annotations

import re
import subprocess
import sys

MOST_REPLAYED = 2


def play(arguments: list[str], only: list[str]) -> tuple[int, list[str]]:
    """Play the scenarios, print what the suite says, and return its exit status and the names of those that differ."""
    command = [sys.executable, *arguments]
    for name in only:
        command += ["--only", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as suite:
        assert suite.stdout is not None
        differing = []
        for line in suite.stdout:
            print(line, end="", flush=True)
            if found := re.match(r"(\S+)\s+DIFFERS", line):
                differing.append(found[1])
    return suite.returncode, differing


def main(arguments: list[str]) -> int:
    status, differing = play(arguments, [])
    if status and 0 < len(differing) <= MOST_REPLAYED:
        print("Played again:", *differing)
        status, _ = play(arguments, differing)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
