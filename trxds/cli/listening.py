"""The error of a command that cannot listen at its address."""

from __future__ import annotations

import errno

from trxds.transport.connect import connect_error, connect_reason


def cannot_listen(address: str, errors: BaseException) -> str:
    """Return which address it is, what is wrong with it, and what to do."""
    error = connect_error(errors)
    number = getattr(error, "errno", None)
    if number == errno.EADDRNOTAVAIL:
        remedy = "give an address of this machine with --host"
    elif number == errno.EACCES:
        remedy = "take a port from 1024 with --port, or 0 for a free one"
    else:
        remedy = "take another port with --port, or 0 for a free one"
    return f"{address}: {connect_reason(error)}; {remedy}"
