"""What a program's channels do, as one snapshot and numbered changes: for commands, and for the page.

    async with trxds.admin.state_stream.open(channel) as states, states.subscribe() as subscription:
        async for message in subscription:
            ...

It looks at the rooms below and none of them knows it. While nobody subscribes there is no task and no hook.
"""

from .stream import StateStream, open
from .subscription import Subscription

__all__ = ["StateStream", "Subscription", "open"]
