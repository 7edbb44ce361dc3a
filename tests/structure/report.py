"""The structure of trxds in numbers: circles, sizes, private attributes, lines, and the two walks.

python tests/structure/report.py [--verbose]    (make structure)
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parent))

import source
import walks

# Rooms that a program which only calls services does not need.
EDGES = frozenset(
    {"cli", "feed", "live", "admin", "generate", "interop", "testing", "portal", "sync", "aio", "__main__.py"}
)
MAX_METHODS, MAX_ATTRIBUTES = 25, 15


def main() -> None:
    """Print everything; with --verbose also the functions of both walks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="print the functions of both walks too")
    arguments = parser.parse_args()

    print_source()
    with walks.Mesh(hosts=4) as mesh:
        rpc = trio.run(walks.unary_rpc, mesh)
        endpoint = trio.run(walks.added_endpoint, mesh)
    print(f"unary RPC: {rpc}")
    print(f"endpoint added by EDS: {endpoint}")
    if arguments.verbose:
        print("\nThe unary RPC, in order:", *rpc.functions, sep="\n  ")
        most = Counter(endpoint.functions).most_common(50)
        print("\nThe endpoint, most frequent first:", *(f"{count:5} {name}" for name, count in most), sep="\n  ")


def print_source() -> None:
    """What the text of the source tells."""
    circles = source.import_circles()
    print(f"import circles between files: {len(circles)}")
    for circle in circles:
        print(f"  {len(circle)} files: {', '.join(circle)}")
    large = [each for each in source.class_sizes() if each.methods > MAX_METHODS or each.attributes > MAX_ATTRIBUTES]
    print(f"objects above {MAX_METHODS} methods or {MAX_ATTRIBUTES} attributes: {len(large)}")
    for each in large:
        print(f"  {each}")
    private = source.private_reads()
    print(f"reads of another object's private attributes: {len(private)}")
    for use in private:
        print(f"  {use}")
    runtime = source.lines_of(path for path in source.FILES if path.parts[0] not in EDGES)
    print(f"runtime: {runtime.code} lines of code, {runtime.comments} comment lines ({runtime.comment_share:.1%})")


if __name__ == "__main__":
    main()
