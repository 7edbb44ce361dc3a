"""The command `trxds`, from its first moment: the imports of all commands take a part of a second.

Ctrl-C ends a process in this time as it ends any other program, by the signal; Python would print a traceback.
"""

from __future__ import annotations

import signal


def main() -> None:
    """Import the commands, and run the one that was written."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # it may be ignored, as in a shell's background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .main import main as run

    signal.signal(signal.SIGINT, before)
    run()
