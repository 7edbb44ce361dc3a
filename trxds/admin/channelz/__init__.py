"""What a program's channels are connected to, and how its calls went there (A14): the Channelz service, client side.

A channel has subchannels, those have sockets. The channels to the control plane are here as well; a
stream to an xDS server has a connection of its own, so their sockets hang on them directly.
"""

from .service import handlers

__all__ = ["handlers"]
