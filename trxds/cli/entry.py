"""The command `trxds` while it imports the commands, which takes a part of a second.

Ctrl-C ends the process in this time as it ends any other program, by the signal; Python would print a traceback, as it
does before, while it imports the package itself.
"""

from __future__ import annotations

import signal


def main() -> None:
    """Import the commands, and run the one that was written."""
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if raises:  # it may be ignored, as in a shell's background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .main import main as run

    if raises:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
