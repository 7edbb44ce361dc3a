"""A channelz tool: it asks, and follows references (A14)."""

from support.raw import call

from trxds.admin.channelz.protos import message
from trxds.admin.channelz.service import SERVICE

ADMIN = "127.0.0.1:15000"
IDLE, CONNECTING, READY, FAILURE, SHUTDOWN = range(1, 6)


class Tool:
    def __init__(self, network, address=ADMIN):
        self.network = network
        self.address = address

    async def ask(self, name, **request):
        """The reply, or the status of a call that failed."""
        payload = message(f"{name}Request")(**request).SerializeToString()
        replies, status = await call(self.network, self.address, f"{SERVICE}/{name}", payload)
        return message(f"{name}Response").FromString(replies[0]) if replies else status

    async def channels(self):
        return list((await self.ask("GetTopChannels")).channel)

    async def channel(self, kind="xds:"):
        [found] = [each for each in await self.channels() if each.ref.name.startswith(kind)]
        return found

    async def subchannels(self):
        refs = (await self.channel()).subchannel_ref
        return [(await self.ask("GetSubchannel", subchannel_id=ref.subchannel_id)).subchannel for ref in refs]

    async def sockets(self, owner):
        return [(await self.ask("GetSocket", socket_id=ref.socket_id)).socket for ref in owner.socket_ref]


def calls(message):
    data = message.data
    return data.calls_started, data.calls_succeeded, data.calls_failed


def streams(socket):
    data = socket.data
    return data.streams_started, data.streams_succeeded, data.streams_failed


def state(message):
    return message.data.state.state
