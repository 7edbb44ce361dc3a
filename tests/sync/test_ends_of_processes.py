"""A process ends even if a block of `trxds.sync` was entered and never left."""

import subprocess
import sys
import textwrap

import pytest
from support.threads import PATIENCE

pytestmark = pytest.mark.slow

BEGIN = """
import atexit, contextlib, gc, os, socket, sys, threading, time
import trio
import trxds.sync
from trxds.portal import trio_thread

silent = socket.create_server(("127.0.0.1", 0))  # takes connections, and says nothing
target = f"ipv4:127.0.0.1:{silent.getsockname()[1]}"
stack = contextlib.ExitStack()
channel = stack.enter_context(trxds.sync.open_channel(target))
hang = channel.method("/shop.Cart/Hang")
"""


def run(script):
    """Run a program; return its output and exit code, or raise if it does not end."""
    program = textwrap.dedent(BEGIN) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return done.stdout.split(), done.stderr, done.returncode


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("", 0, ""),
        ("raise SystemExit('no more')", 1, "no more"),
        ("sys.exit(3)", 3, ""),
        ("raise ValueError('a mistake')", 1, "ValueError: a mistake"),
        ("os._exit(4)", 4, ""),
    ],
)
def test_the_process_ends_however_the_main_thread_ends_in_a_channels_block(end, code, said):
    _, stderr, returned = run(end)
    assert returned == code
    assert stderr.strip().rpartition("\n")[2] == said


def test_the_process_ends_with_several_nested_channel_blocks():
    script = """
    other = stack.enter_context(trxds.sync.open_channel(target))
    session = stack.enter_context(other.session())
    """
    assert run(script) == ([], "", 0)


def test_the_process_ends_while_a_channel_is_being_opened():
    script = """
    opening = hang.open(b"")  # waits for a host
    threading.Thread(target=opening.__enter__, daemon=True).start()
    time.sleep(0.2)
    """
    assert run(script)[::2] == ([], 0)


def test_the_end_of_the_process_closes_the_sockets_of_the_channel():
    script = """
    import warnings
    warnings.simplefilter("always", ResourceWarning)
    silent.close()
    """
    assert run(script) == ([], "", 0)


def test_open_calls_get_channel_closed_at_the_end_of_the_process():
    script = """
    def told(future):
        print(str(future.exception()).replace(" ", "-"))
    hang.future(b"").add_done_callback(told)
    """
    assert run(script) == (["CANCELLED:-channel-closed"], "", 0)


def test_a_thread_that_is_no_daemon_finishes_its_block_before_the_process_ends():
    script = """
    def work():
        with trxds.sync.open_channel(target) as own:
            time.sleep(0.3)
            print("closed" if own.state is None else "open")
    threading.Thread(target=work).start()
    """
    assert run(script) == (["open"], "", 0)


def test_atexit_handlers_of_the_program_may_use_the_channel():
    script = """
    def last():
        channel.try_to_connect()
        print(channel.state.name)
    atexit.register(last)
    """
    assert run(script) == (["CONNECTING"], "", 0)


def test_a_call_after_the_atexit_handler_raises_closed_resource_error():
    script = """
    class Last:
        def __del__(self):
            try:
                hang(b"")
            except trio.ClosedResourceError:
                print("closed")
            try:
                trxds.sync.open_channel(target).__enter__()  # ExitStack of Python 3.15 imports, which is too late here
            except RuntimeError as error:
                print(error)
    last = Last()
    """
    stdout, stderr, code = run(script)
    assert (" ".join(stdout), stderr, code) == (
        "closed the process is about to end, and no channel can be opened any more",
        "",
        0,
    )


def test_a_thread_that_does_not_stop_is_left_behind():
    script = """
    trio_thread.EXIT_TIMEOUT = 0.2
    entered = threading.Event()
    async def block(channel):
        entered.set()
        time.sleep(1000)  # what nobody should do in there
    channel.submit(block)
    entered.wait()
    session = channel.session()
    """
    assert run(script) == ([], "", 0)


def test_a_forked_child_exits_and_leaves_its_parents_channel_alone():
    script = """
    child = os.fork()
    if not child:
        sys.exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    channel.try_to_connect()
    print(channel.state.name)
    """
    assert run(script)[::2] == (["5", "CONNECTING"], 0)


def test_an_abandoned_channel_block_is_left_by_the_garbage_collector():
    script = """
    block = trxds.sync.open_channel(target)
    block.__enter__()
    before = threading.active_count()
    del block
    gc.collect()
    print(before - threading.active_count())
    """
    assert run(script) == (["1"], "", 0)


def test_an_abandoned_channel_block_may_be_collected_in_trios_thread():
    script = """
    gc.disable()
    cycle = [trxds.sync.open_channel(target)]
    inner = cycle[0].__enter__()
    cycle.append(cycle)
    async def collect(channel):
        gc.collect()
        print("collected")
    submitted = inner.submit(collect)
    del cycle
    submitted.result()
    """
    stdout, _, code = run(script)
    assert (stdout, code) == (["collected"], 0)
