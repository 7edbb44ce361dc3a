"""What a program lets out beside the wire: logs, events, spans, the state stream, channelz, errors and `repr`s.

Each text is kept, and `leaks` are those that have the secret in them, in whatever form.
"""

from __future__ import annotations

import base64
import gc
import logging
import traceback
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from types import CoroutineType, FrameType, FunctionType, MethodType, ModuleType

import trio
from hpack import HeaderTuple
from opentelemetry.sdk.trace import TracerProvider  # noqa: F401 - its loggers exist before the levels are set
from support.channelz import Tool
from support.mesh import Mesh
from support.metering import Metered

import trxds.admin
from trxds.admin import state_stream
from trxds.core.observe import AttemptObserver, CallObserver, Observer

SECRET = "s3cr3t-Token-Of-Mine"
ADMIN = "127.0.0.1:15000"

# As it is, and as three bytes of base64 have it at each of their beginnings; in hex, as bytes are often shown.
FORMS = {SECRET.lower(), SECRET.encode().hex()} | {
    base64.b64encode(b"x" * shift + SECRET.encode()).decode()[4:-4].lower() for shift in range(3)
}

_SHOWN = ("trxds", "h2", "hpack", "hyperframe")


class Said:
    """`texts` has what was let out, and where."""

    def __init__(self):
        self.texts = []

    def note(self, where, what):
        self.texts.append((where, what if isinstance(what, str) else repr(what)))

    def error(self, error):
        """An exception as it is printed, as it is logged, and as pytest or a debugger has it."""
        self.note("error", f"{error} {error!r} {''.join(traceback.format_exception(error))}")

    @property
    def leaks(self):
        return [(where, text) for where, text in self.texts if any(form in text.lower() for form in FORMS)]


class Logged(logging.Handler):
    """All that any logger says, at DEBUG."""

    def __init__(self, said):
        super().__init__(logging.DEBUG)
        self.said = said
        self.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))

    def emit(self, record):
        self.said.note("log", self.format(record))


@contextmanager
def everything_logged(said):
    handler, root = Logged(said), logging.getLogger()
    loggers = [root, *(each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger))]
    before = [(logger, logger.level, logger.disabled) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for logger, level, disabled in before:
            logger.setLevel(level)
            logger.disabled = disabled


def _noting(kind, makes=None):
    """An observer of that kind that notes the `repr` of all that it is told."""

    def told(name):
        def method(self, *args, **more):
            self.said.note(f"event {name}", f"{args!r} {more!r}")
            return makes(self.said) if makes is not None and name in ("call", "attempt") else ()

        return method

    names = [name for name in vars(kind) if not name.startswith("_")]
    body = {name: told(name) for name in names} | {"__init__": lambda self, said: setattr(self, "said", said)}
    return type(f"Noting{kind.__name__}", (kind,), body)


NotingAttempt = _noting(AttemptObserver)
NotingCall = _noting(CallObserver, NotingAttempt)
NotingChannel = _noting(Observer, NotingCall)


def reachable(*roots):
    """Every object that these lead to, but for code, its frames and the constants of modules."""
    seen, left = {}, list(roots)
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FrameType | CoroutineType):
            continue
        seen[id(one)] = one
        if isinstance(one, FunctionType):  # its globals would lead to all that was ever imported
            left += (one.__closure__, one.__defaults__, one.__kwdefaults__, one.__dict__)
        else:
            left += gc.get_referents(one)
    return list(seen.values())


def note_reprs(said, *roots):
    """Of objects. A header as a pair of bytes, be it a tuple or hpack's, is what it is."""
    for one in reachable(*roots):
        kind = type(one.func if isinstance(one, partial) else one)
        if str(kind.__module__).partition(".")[0] in _SHOWN and not isinstance(
            one, HeaderTuple | FunctionType | MethodType
        ):
            said.note(f"repr of {kind.__module__}.{kind.__qualname__}", repr(one))


@asynccontextmanager
async def overheard(**more):
    """A mesh, a channel, and all that is let out. What the block leaves is looked at as well."""
    said, its = Said(), Metered(spans=True)
    with everything_logged(said):
        async with (
            Mesh.run(2) as mesh,
            mesh.channel(telemetry=its.telemetry, **more) as channel,
            trxds.admin.serve(channel, address=ADMIN, network=mesh.network),
            state_stream.open(channel) as opened,
            opened.subscribe() as viewed,
            trio.open_nursery() as nursery,
        ):

            async def view():
                async for message in viewed:
                    said.note("feed", message)

            with channel.observed_by(NotingChannel(said)):
                nursery.start_soon(view)
                yield mesh, channel, said
                note_reprs(said, channel, *mesh.servers.values())
                await trio.sleep(2)  # the state stream tells in beats
                await _note_channelz(said, mesh)
            nursery.cancel_scope.cancel()
        for span in its.spans:
            said.note("span", span.to_json())
        said.note("metrics", its.metrics())


async def _note_channelz(said, mesh):
    tool = Tool(mesh.network, ADMIN)
    for channel in await tool.channels():
        said.note("channelz", str(channel))
        for socket in await tool.sockets(channel):
            said.note("channelz", str(socket))
    for subchannel in await tool.subchannels():
        said.note("channelz", str(subchannel))
