"""A thread beside a test."""

from __future__ import annotations

import threading
from contextlib import contextmanager

PATIENCE = 60  # seconds on the real clock, for what takes milliseconds, or a second if it begins a process


@contextmanager
def thread(function, *args):
    """Run beside the block; what it raises comes out at the end."""
    errors = []

    def run():
        try:
            function(*args)
        except BaseException as error:
            errors.append(error)

    running = threading.Thread(target=run)
    running.start()
    yield
    running.join(PATIENCE)
    assert not running.is_alive()
    if errors:
        raise errors[0]
