"""Build the distributions and try them in environments that have nothing else: `make dist-test`.

    python tests/dist/check.py FOLDER PYTHON [PYTHON ...]

The sdist is built first and the wheel from it, so that a file that the sdist lacks is missed here. Both are checked as
the package index checks them. Then each Python gets an empty environment with the wheel, in which a sticky session of
the examples runs, and another one with OpenTelemetry's exporter beside it. The oldest Python that trxds supports gets a
third one, with the lowest version of each dependency that the metadata allow.
"""

from __future__ import annotations

import email
import email.message
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXPORTER = "opentelemetry-exporter-otlp-proto-http"
MISSING_EXTRA = """
try:
    import trxds.otel
except ImportError as error:
    assert "trxds[otel]" in str(error), error
else:
    raise SystemExit("trxds.otel was imported without OpenTelemetry")
"""
# xds-protos has files of these two distributions, in older versions, and pip installs it last. docs/installing.md says
# what to do; the first program fails when that is needed no more.
REMEDY = ("--force-reinstall", "--no-deps", "opentelemetry-proto", "googleapis-common-protos")
OVERWRITTEN = """
try:
    import opentelemetry.exporter.otlp.proto.http.trace_exporter
except ImportError as error:
    assert "opentelemetry/proto" in str(error), error
else:
    raise SystemExit("the exporter works beside trxds without a remedy: take it out of docs/installing.md")
"""
# The newest field that trxds reads.
MIRRORS = """
from envoy.config.route.v3.route_components_pb2 import RouteAction
RouteAction.RequestMirrorPolicy(host_rewrite_literal="cart")
"""
BESIDE_THE_EXPORTER = """
import trxds.otel
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
import trxds.resources.types
reader = PeriodicExportingMetricReader(OTLPMetricExporter("http://127.0.0.1:9/v1/metrics", timeout=1))
trxds.otel.telemetry(meter_provider=MeterProvider([reader]))
"""


def run(*command: str | Path) -> None:
    """Run a command quietly, in a folder that has nothing of this project; show its output if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))[:300]} failed:\n{done.stdout}{done.stderr}")


def build(into: Path) -> tuple[Path, Path]:
    """Return the sdist and the wheel, both checked."""
    run(sys.executable, "-m", "build", "--outdir", into, ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", *into.iterdir())
    (sdist,), (wheel,) = into.glob("*.tar.gz"), into.glob("*.whl")
    return sdist, wheel


def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def lowest(wheel: Path) -> list[str]:
    """Return the dependencies, each with the lowest version that the metadata allow."""
    required = metadata(wheel).get_all("Requires-Dist", [])
    return [each.replace(">=", "==") for each in required if "extra ==" not in each]


def is_oldest(python: str, wheel: Path) -> bool:
    """Return whether this is the oldest Python that trxds supports: old versions have no wheels for newer ones."""
    program = "import sys; print('>=%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip() == metadata(wheel)["Requires-Python"]


def description(wheel: Path) -> str:
    """Return what a package index shows; fail if it has links or pictures that lead nowhere there."""
    text = str(metadata(wheel).get_payload())
    if astray := re.findall(r"\]\((?!https:)[^)]*\)|<img[^>]*>", text):
        sys.exit(f"the description for the package index has links that lead nowhere there: {', '.join(astray)}")
    return text


def program_of(text: str) -> str:
    """Return the one Python program of a description."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(program)


class Environment:
    """An empty environment of one Python."""

    def __init__(self, python: str, folder: Path) -> None:
        run(python, "-m", "venv", folder)
        self.bin = folder / "bin"

    def install(self, *packages: str | Path) -> float:
        """Install packages; return the seconds that it took."""
        began = time.monotonic()
        run(self.bin / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
        return time.monotonic() - began

    def execute(self, program: str) -> None:
        """Run a program given as text."""
        run(self.bin / "python", "-c", program)

    def size(self) -> int:
        """Return the bytes of what is installed, without pip and setuptools."""
        (packages,) = self.bin.parent.glob("lib/python*/site-packages")
        own = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
        folders = [each for each in packages.iterdir() if not each.name.startswith(own)]
        return sum(file.stat().st_size for each in folders for file in _files(each))


def _files(path: Path) -> Iterator[Path]:
    yield from (each for each in path.rglob("*") if each.is_file()) if path.is_dir() else (path,)


def try_out(python: str, folder: Path, sdist: Path, wheel: Path) -> str:
    """Install and use the distributions with one Python; return a line about it."""
    plain = Environment(python, folder / "plain")
    seconds = plain.install(wheel)
    plain.execute(MISSING_EXTRA)
    run(plain.bin / "python", ROOT / "examples/sticky_session.py")
    run(plain.bin / "trxds", "--help")
    plain.execute(program_of(description(wheel)))
    size = plain.size()
    both = Environment(python, folder / "both")
    both.install(f"{wheel}[otel]", EXPORTER)
    both.execute(OVERWRITTEN)
    both.install(*REMEDY)
    both.execute(BESIDE_THE_EXPORTER)
    run(both.bin / "python", ROOT / "examples/sticky_session.py")
    if is_oldest(python, wheel):
        old = Environment(python, folder / "old")
        old.install(wheel, *lowest(wheel))
        run(old.bin / "python", ROOT / "examples/sticky_session.py")
        run(old.bin / "trxds", "--help")
        old.execute(MIRRORS)
    source = Environment(python, folder / "source")
    source.install(sdist)
    run(source.bin / "python", ROOT / "examples/sticky_session.py")
    return f"{python}: {seconds:.0f} s to install, {size / 1e6:.0f} MB"


def main(into: Path, pythons: list[str]) -> None:
    """Build, check, and try with each Python."""
    with tempfile.TemporaryDirectory() as made:
        for old in into.glob("trxds-*") if into.exists() else ():
            old.unlink()
        sdist, wheel = build(into)
        if not re.search(r"^\[project\.urls\]$", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE):
            print("pyproject.toml has no [project.urls]: add it before the first upload (CONTRIBUTING.md)")
        print(f"{sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB, {wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        for number, python in enumerate(pythons):
            print(try_out(python, Path(made) / str(number), sdist, wheel), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2:])
