"""A certificate authority of a test's own, in PEM files."""

from __future__ import annotations

from pathlib import Path

import trustme


class Files:
    """PEM files of one certificate authority, by name; the server's certificate is for `name`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        ca = trustme.CA()
        ca.cert_pem.write_to_path(self.path("roots"))
        for owner, its in (("server", name), ("client", "web.example")):
            leaf = ca.issue_cert(its)
            leaf.cert_chain_pems[0].write_to_path(self.path(f"{owner}-cert"))
            leaf.private_key_pem.write_to_path(self.path(f"{owner}-key"))

    def path(self, name: str) -> str:
        return str(self.folder / f"{name}.pem")

    def paths(self, *names: str) -> list[str]:
        return [self.path(name) for name in names]
