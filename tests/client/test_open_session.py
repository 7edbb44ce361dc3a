"""The end of a session, and the calls that it has then."""

import pytest

from trxds.client.lifecycle import ChannelLifecycle
from trxds.client.open_session import OpenSession, UnstickyMethods
from trxds.session_affinity.session import SessionCookies


class FakeCall:
    def __init__(self):
        self.reasons = []

    def cancel(self, reason):
        self.reasons.append(reason)


@pytest.fixture
async def channel(autojump_clock):
    return ChannelLifecycle("xds:///shop")


def open_session(channel):
    return OpenSession(SessionCookies(), channel, UnstickyMethods(channel.target), lambda: 0.0)


async def test_the_end_of_a_session_cancels_its_open_calls_and_no_ended_ones(channel):
    session, open_call, ended_call = open_session(channel), FakeCall(), FakeCall()
    session.begin_call(ended_call)
    session.end_call(ended_call)
    session.begin_call(open_call)
    session.end()
    assert (open_call.reasons, ended_call.reasons) == (["the session has ended"], [])
    assert session.closed


async def test_the_end_of_a_session_in_a_forked_child_touches_no_call(channel):
    session, call = open_session(channel), FakeCall()
    session.begin_call(call)
    channel.mark_forked()
    session.end()
    assert call.reasons == []
