"""The state of a program's channels as one snapshot and numbered changes, for commands and for the page.

    async with trxds.admin.state_stream.open(channel) as states, states.subscribe() as subscription:
        async for message in subscription:
            ...

The packages below do not import this one. Without a subscriber there is no task and no observer.
"""

from .stream import StateStream, open
from .subscription import Subscription

__all__ = ["StateStream", "Subscription", "open"]
