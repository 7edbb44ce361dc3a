"""The oldest version of each package that pyproject.toml allows, as constraints for pip: for `make test-oldest`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
BOUND = re.compile(r"([A-Za-z0-9._-]+)>=([0-9][0-9a-z.]*)")


def constraints() -> Iterator[str]:
    """Those of trxds and its extras; of the tests' own only OpenTelemetry's SDK, which belongs to the API's version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    sdk = [each for each in extras["dev"] if each.startswith("opentelemetry-")]
    for requirement in [*project["dependencies"], *extras["otel"], *extras["generate"], *sdk]:
        bound = BOUND.fullmatch(requirement)
        if bound is None:
            raise ValueError(f"pyproject.toml: {requirement!r} has no oldest version; write name>=version")
        yield f"{bound[1]}=={bound[2]}"


if __name__ == "__main__":
    print(*constraints(), sep="\n")
