"""Tokens of sessions by hand."""

from __future__ import annotations

import base64
import json
import traceback

import pytest
import trio
from support.mesh import ask

from trxds import SessionTokenError

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
NOON = 1.8e9  # in seconds since 1970, at 0 on Trio's clock


def on_wall_clock(channel, skew=0.0):
    """Let the wall clock jump with Trio's; `skew` is what this machine's is ahead of the others."""
    channel._state.sessions.epoch = lambda: NOON + trio.current_time() + skew


async def exported(mesh, *, key=None):
    """A token, and the host of its session, of a channel that has ended since."""
    async with mesh.channel() as channel:
        on_wall_clock(channel)
        async with channel.session() as session:
            host = await ask(session)
            return session.export(key=key), host


def contents(token):
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def token_of(*, cookies=(), headers=(), target="xds:///shop", version=1):
    payload = json.dumps({"target": target, "cookies": cookies, "headers": headers}).encode()
    return f"trxds{version}.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}"


async def refused(channel, token, **options):
    """The error of a token, of which nothing is in the traceback but in the frame of this caller."""
    try:
        async with channel.session(token, **options):
            pytest.fail("the token was taken")
    except SessionTokenError as error:
        own = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if "trxds" in frame.f_code.co_filename]
        shown = [
            repr(value)
            for frame in own
            if "/tests/" not in frame.f_code.co_filename
            for value in frame.f_locals.values()
        ]
        if isinstance(token, str) and len(token) > 10:
            assert own and not any(token in text for text in (str(error), *shown))
        return str(error)
