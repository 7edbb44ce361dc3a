"""The Channelz service for a client (A14): its channels, their connections, and how many calls failed there.

A channel has subchannels, and a subchannel has sockets. The channels to control planes are listed too. A stream to an
xDS server has a connection of its own, so such a channel has its sockets directly.
"""

from .service import handlers

__all__ = ["handlers"]
