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
