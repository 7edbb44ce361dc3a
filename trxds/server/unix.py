"""A listener at a path of the file system, which Trio does not have."""

from __future__ import annotations

import errno
import socket
import stat

import trio

_BACKLOG = 128


class UnixListener(trio.abc.Listener[trio.SocketStream]):
    """A listener that removes its path when it is closed."""

    def __init__(self, path: trio.Path, listener: trio.SocketListener) -> None:
        self._path = path
        self._listener = listener

    async def accept(self) -> trio.SocketStream:
        return await self._listener.accept()

    async def aclose(self) -> None:
        with trio.CancelScope(shield=True):  # a cancelled server would leave its path behind
            await self._path.unlink(missing_ok=True)
        await self._listener.aclose()


async def unix_listener(name: str, *, private: bool = False) -> UnixListener:
    """Listen at that path. A socket without a listener is removed first; `OSError` for anything else.

    A `private` one can be used only by programs of the same user.
    """
    path = trio.Path(name)
    # A server that was killed leaves its path behind, and `bind` would fail.
    await _remove_stale_socket(path)
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await sock.bind(name)
        # Before `listen`, as until then nobody can connect.
        if private:
            await path.chmod(0o600)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return UnixListener(path, trio.SocketListener(sock))


async def _remove_stale_socket(path: trio.Path) -> None:
    try:
        if not stat.S_ISSOCK((await path.stat()).st_mode):
            # `bind` would say that the address is in use, as if a program listened there.
            raise OSError(errno.ENOTSOCK, "there is a file that is no socket; take another path")
        async with await trio.open_unix_socket(str(path)):
            return  # another server listens, and `bind` fails with that error
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        await path.unlink(missing_ok=True)
