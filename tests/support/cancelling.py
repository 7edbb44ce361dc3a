"""Cancellation at a chosen step, so that a test can try them all."""

import trio


class CancelAtStep(trio.abc.Instrument):
    """Cancels the scope at the k-th step that any task takes, the channel's own and the servers' too."""

    def __init__(self, k):
        self.k = k
        self.scope = trio.CancelScope()
        self.steps = 0

    def before_task_step(self, task):
        self.steps += 1
        if self.steps == self.k:
            self.scope.cancel()


async def wait_and_fail_when_cancelled():
    """Wait for ever in a nursery, whose child raises `OSError` in its clean-up."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_fail_when_cancelled)
        await trio.sleep_forever()


async def _fail_when_cancelled():
    try:
        await trio.sleep_forever()
    finally:
        raise OSError("the clean-up failed")
