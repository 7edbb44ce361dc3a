"""What a server remembers of its calls: the calls themselves, and the first reply of a wrong type.

A test must not pass with such a reply. Its caller sees a status only, and may have a fallback for it.
"""

from __future__ import annotations

from trxds.core.error_text import error_in

from .reply_type import ReplyTypeError
from .server_call import Call, Handler


class CallRecord:
    """A record has `calls` in their order, unless `remember_calls` is false, and always `reply_error`."""

    def __init__(self, remember_calls: bool) -> None:
        self.calls: list[Call] = []
        self.reply_error: ReplyTypeError | None = None
        self._remember_calls = remember_calls

    def add(self, call: Call) -> None:
        """Add a call that begins."""
        if self._remember_calls:
            self.calls.append(call)

    async def run(self, call: Call, handler: Handler) -> None:
        """Run a call to its end, and note the first reply of a wrong type."""

        async def noting_handler(call: Call) -> None:
            try:
                await handler(call)
            except Exception as error:
                reply_error = error_in(error, ReplyTypeError)
                if reply_error is None:
                    raise
                self.reply_error = self.reply_error or reply_error
                raise reply_error from None

        await call.run(noting_handler)
