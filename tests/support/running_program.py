"""A program with a channel, and commands beside it at a unix socket."""

import json
from contextlib import asynccontextmanager

import trio
from click.testing import CliRunner
from support.mesh import Mesh, ask
from trio.testing import wait_all_tasks_blocked

from trxds.cli.main import main


class Shell:
    """Somebody at a terminal beside the program."""

    def __init__(self, address):
        self.address = address

    async def run(self, command, *options, address=None):
        """The command's result; it runs in a thread, as another program would beside ours."""
        line = [command, address or self.address, *options]
        return await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, line), abandon_on_cancel=True)

    async def lines(self, command, *options, exit_code=0):
        done = await self.run(command, *options)
        assert (done.exit_code, done.stderr) == (exit_code, ""), done.output
        return done.stdout.splitlines()

    async def rows(self, command, *options, exit_code=0):
        return [json.loads(line) for line in await self.lines(command, "--json", *options, exit_code=exit_code)]


@asynccontextmanager
async def program(tmp_path, hosts=3):
    """A mesh, a channel of it that has called, and a shell."""
    address = f"unix:{tmp_path}/x.sock"
    async with Mesh.run(hosts) as mesh, mesh.channel(admin=address) as channel:
        await ask(channel)
        await wait_all_tasks_blocked()
        yield mesh, channel, Shell(address)


async def until(condition):
    """Until the program is so far: what it does, it does in memory and at once."""
    with trio.fail_after(60):
        while not condition():
            await trio.lowlevel.checkpoint()
