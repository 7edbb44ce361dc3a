"""Proxies of other projects, in front of a gRPC server: nginx, HAProxy and nghttpx, as a distribution packages them.

    async with running(nginx, folder, upstream) as proxy: ...  # proxy.address

No target of the Makefile installs them. A test whose proxy is missing is left out (`program`).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
import trio

from .certificates import Files
from .ports import reserved_address

SERVER_NAME = "proxy.example"
"""The name that a proxy with TLS proves."""

PACKAGES = {"nginx": "nginx", "haproxy": "haproxy", "nghttpx": "nghttp2-proxy"}
"""The programs, and the Debian packages that have them."""

Command: TypeAlias = list[str]
MakeCommand: TypeAlias = Callable[[Path, str, str, Files | None], Command]
"""A function of a folder for its files, the address to listen on, that of the server, and certificates for TLS."""


def program(name: str) -> str:
    """Return the path of a proxy's program; without it the test is left out."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if path is None:
        pytest.skip(f"{name} is not installed; `apt-get install --no-install-recommends {PACKAGES[name]}` does it")
    return path


class Proxy:
    """A proxy that runs. `roots` is the file of the authority that its certificate is from, if it has TLS."""

    def __init__(self, process: trio.Process, address: str, roots: str | None) -> None:
        self.process = process
        self.address = address
        self.roots = roots

    def reload(self) -> None:
        """Have nginx begin new workers; the old ones finish what they have."""
        self.process.send_signal(signal.SIGHUP)


@asynccontextmanager
async def running(make: MakeCommand, folder: Path, upstream: str, *, tls: bool = False) -> AsyncIterator[Proxy]:
    """A proxy that passes all calls on to `upstream`, from when it listens until the block is left."""
    files = Files(folder, SERVER_NAME) if tls else None
    with reserved_address() as address:  # none of these proxies says which port it got for port 0
        command = make(folder, address, upstream, files)
        async with trio.open_nursery() as nursery:
            with (folder / "log").open("wb") as log:
                pipes = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
                process = await nursery.start(partial(trio.run_process, command, check=False, **pipes))
            await _wait_listening(process, address)
            yield Proxy(process, address, files.path("roots") if files else None)
            process.terminate()
            with trio.move_on_after(5):
                await process.wait()
            process.kill()  # which does nothing to one that has ended


async def _wait_listening(process: trio.Process, address: str) -> None:
    host, _, port = address.partition(":")
    while True:
        try:
            await (await trio.open_tcp_stream(host, int(port))).aclose()
        except OSError:
            assert process.poll() is None, "the proxy has ended; `log` in its folder says why"
            await trio.sleep(0.01)
        else:
            return


# -- how each of them is told


def nginx(folder: Path, address: str, upstream: str, files: Files | None, http: str = "") -> Command:
    """`http` has more directives of the block of that name."""
    listen = f"listen {address} http2;"
    if files is not None:
        certificate = f"ssl_certificate {files.path('server-cert')}; ssl_certificate_key {files.path('server-key')};"
        listen = f"listen {address} ssl http2; {certificate}"
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = " ".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
    # As root it would give its folders to another user, whom a container need not have.
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(f"""
        {user} daemon off; worker_processes 1; pid {folder / "pid"}; error_log stderr warn;
        events {{ worker_connections 512; }}
        http {{
            access_log off; client_max_body_size 0; {folders} {http}
            server {{ {listen} location / {{ grpc_pass grpc://{upstream}; }} }}
        }}
    """)
    return [program("nginx"), "-c", str(folder / "nginx.conf"), "-e", "stderr"]


def haproxy(folder: Path, address: str, upstream: str, files: Files | None) -> Command:
    bind = "proto h2"
    if files is not None:
        both = Path(files.path("both"))
        both.write_bytes(b"".join(Path(path).read_bytes() for path in files.paths("server-cert", "server-key")))
        bind = f"ssl crt {both} alpn h2"
    config = f"""
defaults
    mode http
    retries 0
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend front
    bind {address} {bind}
    default_backend back
backend back
    server one {upstream} proto h2
"""
    (folder / "haproxy.cfg").write_text(config)
    return [program("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")]


def nghttpx(folder: Path, address: str, upstream: str, files: Files | None, *options: str) -> Command:
    front, back = address.replace(":", ","), upstream.replace(":", ",")
    keys = files.paths("server-key", "server-cert") if files else []
    listen = f"--frontend={front}" if files else f"--frontend={front};no-tls"
    quiet = ["--conf=/dev/null", "--no-ocsp", "--workers=1", "--log-level=WARN"]
    return [program("nghttpx"), *quiet, listen, f"--backend={back};;proto=h2", *options, *keys]
