"""Certificate revocation lists, from a directory, a file, or bytes (A69).

The names of files mean nothing. OpenSSL decides what a list revokes; a certificate whose issuer has no list here, or an
expired one, is refused.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from trxds.core.redacted_struct import RedactedStruct

from .der import CrlFacts, CrlKey, crl_facts
from .file_content import FileContent, FileSource, as_path, origin, read_source

_PEM = re.compile(rb"-----BEGIN X509 CRL-----(.*?)-----END X509 CRL-----", re.DOTALL)
_MAX_SHOWN = 5  # files in one message


class Crl(RedactedStruct, frozen=True):
    """A list in DER, and what it says."""

    redacted: ClassVar[frozenset[str]] = frozenset({"der"})
    facts: CrlFacts
    der: bytes


class Crls(Struct, frozen=True):
    """The revocation lists in use; `origin` says where they are from, and `problems` are those of the last reading."""

    origin: str
    lists: Mapping[CrlKey, Crl]
    problems: tuple[str, ...] = ()

    @property
    def pem(self) -> bytes:
        """Return all lists as one PEM file, which OpenSSL reads."""
        lines = (base64.encodebytes(each.der) for each in self.lists.values())
        return b"".join(b"-----BEGIN X509 CRL-----\n" + text + b"-----END X509 CRL-----\n" for text in lines)

    @property
    def first_end(self) -> datetime | None:
        """Return when the first of them expires; None if none does."""
        return min((each.facts.next_update for each in self.lists.values() if each.facts.next_update), default=None)

    @property
    def problem(self) -> str:
        """Return what was wrong in the last reading, in one text; empty if nothing was."""
        more = f"; and {len(self.problems) - _MAX_SHOWN} more" if len(self.problems) > _MAX_SHOWN else ""
        text = "; ".join(self.problems[:_MAX_SHOWN]) + more
        return text and f"cannot read all CRLs {self.origin}: {text}"

    def __str__(self) -> str:
        end = f", until {self.first_end:%Y-%m-%d %H:%M} UTC" if self.first_end else ""
        return f"CRLs {self.origin} ({len(self.lists)}{end})"


def read_crls(source: FileSource, before: Crls | None = None) -> Crls:
    """Read the lists; `before` is the result of the last reading.

    Where all could be read, they are the lists. Otherwise those of `before` stay that were not replaced, because nobody
    knows what the unreadable file had.
    """
    found: dict[CrlKey, Crl] = {}
    problems: list[str] = []
    for name, part in _parts(source, problems):
        # A69: a spoilt list keeps no other one from being used, also in the same file.
        for each in _read(part):
            if isinstance(each, str):
                problems.append(f"{name}: {each}" if name else each)
                continue
            other = found.get(each.facts.key)
            # Of two lists for the same certificates the newer one holds, whatever their files are called.
            if other is None or other.facts.this_update <= each.facts.this_update:
                found[each.facts.key] = each
    kept = before.lists if before is not None and problems else {}
    return Crls(origin(source), {**kept, **found}, tuple(problems))


def _parts(source: FileSource, problems: list[str]) -> Iterator[tuple[str, FileSource]]:
    """Yield the files, each with its name in messages."""
    if isinstance(source, FileContent) or not Path(source).is_dir():
        yield "", source
        return
    try:
        # Sorted, so that problems have the same order in each reading, and a new order is no new message.
        files = sorted(each for each in Path(source).iterdir() if not each.is_dir())
    except OSError as error:
        problems.append(error.strerror or str(error))
        return
    yield from ((each.name, str(each)) for each in files)


def _read(source: FileSource) -> Iterator[Crl | str]:
    """Yield the lists of a file, and the reason in place of each that cannot be used, or of all."""
    try:
        data = read_source(source)
    except OSError as error:
        yield str(error)
        return
    # A69: PEM or DER. Each DER file begins with the tag of a SEQUENCE, which no PEM text does.
    is_der = data[:1] == b"\x30"
    texts = [data] if is_der else _PEM.findall(data)
    if not texts:
        yield "it has no CRL (BEGIN X509 CRL)"
    for text in texts:
        try:
            yield _checked(text if is_der else base64.b64decode(text))
        except ValueError as error:
            yield str(error)


def _checked(der: bytes) -> Crl:
    facts = crl_facts(der)
    if facts.is_delta:
        raise ValueError("it is a delta CRL; only complete ones are supported")
    crl = Crl(facts, der)
    try:
        # Into a context of its own: one list that OpenSSL refuses would spoil all others.
        load_crls(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), Crls("", {facts.key: crl}))
    except ssl.SSLError:
        raise ValueError("it has not the form of a CRL") from None
    return crl


def load_crls(context: ssl.SSLContext, crls: Crls) -> None:
    """Make the context refuse certificates that a list revokes, or whose issuer has no valid list."""
    with as_path(FileContent(crls.pem)) as path:
        context.load_verify_locations(path)
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
