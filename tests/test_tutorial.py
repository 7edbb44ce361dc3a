"""The tutorial, followed step by step: its files are written, its commands run, and they print what it shows.

A block `# name.py` is a file, and `# mesh.yaml` has resources that take the place of those of their names. A console
block is a command of the reader's. `<!-- terminal: NAME -->` before it says that it goes on running there, and a later
block of the same terminal is what it prints then. The three pages are one story, so they are one test.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.ports import reserved_ports
from support.programs import Programs

from trxds.testing.resources import bootstrap

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "docs" / "tutorial" / name for name in ("sticky-session.md", "drain.md", "rollout.md")]
BLOCK = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*) -->\n\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
PORTS = (50051, 50052, 50061, 50062, 18000, 9901)
WITHIN = 40  # seconds for one step, on a machine with every core busy
VARIES = (
    (re.compile(r"127\.0\.0\.1:50\d\d\d"), "HOST"),
    (re.compile(r"\b(anna|ben|carla|dora)\b"), "USER"),
    (re.compile(r"\bhas .*"), "has ITEMS"),
    (re.compile(r"\d+"), "N"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True)
class Block:
    page: str
    note: str
    language: str
    text: str

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]


def blocks() -> list[Block]:
    return [
        Block(page.name, found["note"] or "", found["language"], found["text"])
        for page in PAGES
        for found in BLOCK.finditer(page.read_text("utf-8"))
    ]


def comparable(lines: Sequence[str]) -> list[str]:
    """The lines in any order, without what is another one at each run."""
    text = "\n".join(lines)
    for pattern, name in VARIES:
        text = pattern.sub(name, text)
    return sorted(line.rstrip() for line in text.splitlines())


def translated(text: str, ports: Mapping[str, str]) -> str:
    return re.sub(r"\b(" + "|".join(ports) + r")\b", lambda found: ports[found[0]], text)


@dataclass
class Terminal:
    """A program that goes on running; `shown` is what the pages have shown of its output."""

    output: Path
    stop: ExitStack
    shown: list[str] = field(default_factory=list)


class Reader:
    """Somebody who follows the pages, in a folder of their own, with free ports in place of those of the pages."""

    def __init__(self, folder: Path, ports: Mapping[str, str], programs: Programs) -> None:
        self.folder = folder
        self.terminals: dict[str, Terminal] = {}
        self.outputs: dict[str, str] = {}
        self.ran: set[str] = set()
        self._resources: dict[tuple[str, str], Any] = {}
        self._ports = ports
        self._programs = programs

    def documented(self, text: str) -> str:
        return translated(text, {real: documented for documented, real in self._ports.items()})

    def follow(self, block: Block) -> None:
        match block.language:
            case "python":
                self.write_program(block)
            case "yaml":
                self.write_resources(block)
            case "console" if block.note.startswith("not run: "):
                pass
            case "console" if block.note.startswith("terminal: "):
                self.use_terminal(block)
            case "console":
                self.run(block)

    def write_program(self, block: Block) -> None:
        (self.folder / block.first_line.removeprefix("# ")).write_text(block.text, "utf-8")

    def write_resources(self, block: Block) -> None:
        for resource in yaml.safe_load(block.text):
            self._resources[resource["@type"], resource.get("name") or resource["cluster_name"]] = resource
        # Replaced in one step, as editors do: a control plane must not read half of it.
        text = translated(yaml.safe_dump(list(self._resources.values()), sort_keys=False), self._ports)
        served = self.versions_served()
        (self.folder / "mesh.new").write_text(text, "utf-8")
        (self.folder / "mesh.new").replace(self.folder / "mesh.yaml")
        if served:
            assert any(self.versions_served() > served for _ in attempts()), f"{block.page}: {block.first_line}"

    def versions_served(self) -> int:
        """How many versions of mesh.yaml the control plane has sent."""
        return self.printed("plane").count("serving ") if "plane" in self.terminals else 0

    def printed(self, terminal: str) -> str:
        output = self.terminals[terminal].output
        return self.documented(output.read_text("utf-8")) if output.exists() else ""

    def command(self, line: str) -> list[str]:
        """The words of a line; `trxds plane` gets a port of its own."""
        words = translated(line.removeprefix("$ "), self._ports).split()
        if words[0] == "python":
            self.ran.add(words[1])
        return [*words, "--port", self._ports["18000"]] if words[:2] == ["trxds", "plane"] else words

    def run(self, block: Block) -> None:
        """Run it until it prints what is shown: a reader takes a moment to go to another terminal, too."""
        shown = block.text.splitlines()[1:]
        bound = len(shown) - 1 if shown[-1] == "..." else None
        file = self.folder / "run.out"
        for _ in attempts():
            self._programs.finish(self.command(block.first_line), file)
            output = self.outputs[block.first_line] = self.documented(file.read_text("utf-8"))
            printed = output.splitlines()[:bound]
            # The first calls may be faster than the connection to a host that has to be among those that are met.
            are_as_many = len(hosts_of(output)) == len(hosts_of(block.text))
            if are_as_many and comparable(printed) == comparable(shown[:bound]):
                return
        pytest.fail(f"{block.page}: {block.first_line} printed\n{output}")

    def use_terminal(self, block: Block) -> None:
        name, _, stopped = block.note.removeprefix("terminal: ").partition(", stops ")
        if stopped:
            self.terminals[stopped].stop.close()
        lines = block.text.splitlines()
        if lines[0].startswith("$ "):
            output = self.folder / f"{name}.out"
            self.terminals[name] = Terminal(output, ExitStack())
            self.terminals[name].stop.enter_context(self._programs.started(self.command(lines.pop(0)), output))
        terminal = self.terminals[name]
        terminal.shown += lines
        for _ in attempts():
            printed = comparable(self.printed(name).splitlines())
            # The pages do not repeat what the control plane prints at each change.
            if printed == comparable(terminal.shown) or (name == "plane" and set(comparable(lines)) <= set(printed)):
                return
        pytest.fail(f"{block.page}: {name} printed\n{self.printed(name)}")


def attempts() -> Iterator[None]:
    end = time.monotonic() + WITHIN
    while time.monotonic() < end:
        yield
        time.sleep(0.05)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with reserved_ports(len(PORTS)) as reserved:
        ports = dict(zip(map(str, PORTS), map(str, reserved), strict=True))
        config = json.dumps(bootstrap(f"127.0.0.1:{ports['18000']}", node="trxds-plane"))
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "GRPC_XDS_BOOTSTRAP_CONFIG": config}
        with Programs.run(tmp_path, environ) as programs:
            reader = Reader(tmp_path, ports, programs)
            try:
                yield reader
            finally:
                for terminal in reader.terminals.values():
                    terminal.stop.close()


def test_each_step_of_the_tutorial_does_what_its_page_says(reader: Reader) -> None:
    for block in blocks():
        reader.follow(block)
    files = {block.first_line.removeprefix("# ") for block in blocks() if block.language == "python"}
    assert reader.ran == files
    assert hosts_of(reader.outputs["$ python buy.py"]) == {"127.0.0.1:50051", "127.0.0.1:50052"}
    assert len(hosts_of(reader.outputs["$ python buy_in_session.py"])) == 1
    moves = re.findall(r"moved from (\S+) to (\S+):", reader.terminals["careful_visitors"].output.read_text("utf-8"))
    assert len(moves) == 6


@pytest.mark.parametrize(("program", "hosts"), [("buy.py", 2), ("buy_in_session.py", 1)])
def test_the_output_that_the_tutorial_shows_is_on_as_many_hosts_as_it_says(program: str, hosts: int) -> None:
    shown = [block.text for block in blocks() if block.first_line == f"$ python {program}"]
    assert shown and {len(hosts_of(text)) for text in shown} == {hosts}


def hosts_of(output: str) -> set[str]:
    return set(re.findall(r"^(\S+) has ", output, re.MULTILINE))
