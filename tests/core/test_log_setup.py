"""`TRXDS_LOG` shows the log of programs that set up none; it breaks no import, and repeats no line."""

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trxds
from trxds.core.log_setup import LOGGERS, parse

HOUSE = Path(trxds.__file__).parent
LINE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} %s trxds.%s: %s\n"
UNKNOWN = (
    "TRXDS_LOG has no effect for 'ads', 'xds=loud'; it knows all, admin, aio, client, lb, observers, portal, resolver, "
    "server, session_affinity, transport, xds; a level follows after '=': debug, info, warning, error"
)


def stderr_of(program, variable=None, *options):
    """What a program with that variable writes to stderr; its exit status is 0."""
    environment = {"PYTHONPATH": str(HOUSE.parent)} | ({} if variable is None else {"TRXDS_LOG": variable})
    command = [sys.executable, *options, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


SAYS = """
import logging, trxds
for name in ("xds", "lb", "client"):
    for level in (logging.DEBUG, logging.INFO, logging.WARNING):
        logging.getLogger("trxds." + name).log(level, "%s", "hello")
"""


def levels_and_names(text):
    return [tuple(line.split()[2:4]) for line in text.splitlines()]


class TestValue:
    @pytest.mark.parametrize(
        ("text", "levels"),
        [
            ("xds,lb", {"trxds.xds": logging.INFO, "trxds.lb": logging.INFO}),
            (" XDS = Debug , lb", {"trxds.xds": logging.DEBUG, "trxds.lb": logging.INFO}),
            ("all", {"trxds": logging.INFO}),
            ("all=error,trxds.client=warning", {"trxds": logging.ERROR, "trxds.client": logging.WARNING}),
            (",,", {}),
        ],
    )
    def test_it_names_loggers_and_their_levels(self, text, levels):
        assert parse(text) == (levels, [])

    @pytest.mark.parametrize("part", ["ads", "xds=loud", "xds=", "=debug", "debug", "trxds", "xds lb"])
    def test_a_part_that_it_does_not_know_leaves_the_others_as_they_are(self, part):
        assert parse(f"{part},lb") == ({"trxds.lb": logging.INFO}, [part])

    def test_it_knows_every_logger_of_the_house(self):
        used = {
            name
            for path in HOUSE.rglob("*.py")
            for name in re.findall(r'getLogger\("trxds\.(\w+)"\)', path.read_text("utf-8"))
        }
        assert used == set(LOGGERS)


class TestProgram:
    def test_without_the_variable_nothing_is_shown(self):
        assert stderr_of(SAYS) == stderr_of(SAYS, "") == ""

    def test_the_named_loggers_are_shown_at_their_levels_and_the_others_from_warning(self):
        shown = stderr_of(SAYS, "xds=debug,lb")
        assert levels_and_names(shown) == [
            ("DEBUG", "trxds.xds:"),
            ("INFO", "trxds.xds:"),
            ("WARNING", "trxds.xds:"),
            ("INFO", "trxds.lb:"),
            ("WARNING", "trxds.lb:"),
            ("WARNING", "trxds.client:"),
        ]
        assert re.fullmatch(LINE % ("DEBUG", "xds", "hello"), shown.splitlines(keepends=True)[0])

    @pytest.mark.parametrize("options", [(), ("-W", "error")])
    def test_unknown_names_are_one_warning_that_lists_the_known_ones(self, options):
        (line,) = stderr_of("import trxds", "ads,xds=loud,lb", *options).splitlines(keepends=True)
        assert line.endswith(f" WARNING trxds: {UNKNOWN}\n")

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_program_that_sets_up_logging_has_each_line_once_in_its_own_form(self, when):
        setup = "import logging; logging.basicConfig(format='mine %(message)s')"
        program = f"{setup}\n{SAYS}" if when == "before" else SAYS.replace("trxds\n", f"trxds\n{setup}\n", 1)
        assert stderr_of(program, "lb").splitlines() == ["mine hello"] * 4

    def test_a_handler_of_one_logger_is_left_alone_and_the_others_are_shown(self):
        setup = "import logging; logging.getLogger('trxds.lb').addHandler(logging.FileHandler('/dev/null'))"
        assert levels_and_names(stderr_of(f"{setup}\n{SAYS}", "lb,xds")) == [
            ("INFO", "trxds.xds:"),
            ("WARNING", "trxds.xds:"),
            ("WARNING", "trxds.client:"),
        ]

    def test_a_program_without_stderr_runs(self):
        assert stderr_of(f"import sys; sys.stderr = None\n{SAYS}", "all=debug") == ""

    def test_a_channel_s_lines_are_shown(self):
        program = """
import trio, trxds
from trxds.testing import MemoryNetwork, serve, unary

async def answer(request, call):
    return request

async def main():
    network = MemoryNetwork()
    async with (
        serve({"/shop.Cart/Add": unary(answer)}, address="10.0.0.1:1", network=network),
        trxds.open_channel("ipv4:10.0.0.1:1", network=network) as channel,
    ):
        await channel.method("/shop.Cart/Add")(b"")

trio.run(main)
"""
        shown = stderr_of(program, "transport,lb=debug")
        assert re.search(LINE % ("INFO", "transport", "ipv4:10.0.0.1:1: connected to 10.0.0.1:1"), shown)
        assert "call 1 of /shop.Cart/Add goes to host 10.0.0.1:1" in shown
        assert "trxds.client" not in shown
