"""Writes recorded resources: a YAML list, readable by its owner only, which says what is not in it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import yaml

from trxds.core.plural import plural
from trxds.resources import protos
from trxds.resources.types import RESOURCE_TYPES

from .redaction import NamedResource, Redaction

_ORDER = tuple(RESOURCE_TYPES)


def save(path: Path, source: str, found: Iterable[NamedResource]) -> str:
    """Write the resources without their secrets; return a line for people. `OSError` if it cannot be written.

    Several channels of a program may have the same resource. It is written once, as the last one has it.
    """
    once: dict[tuple[int, str], protos.AnyProto] = {}
    differing: dict[str, None] = {}
    for name, packed in found:
        key = _ORDER.index(packed.type_url), name
        if key in once and once[key].value != packed.value:
            differing[f'{RESOURCE_TYPES[packed.type_url].kind} resource "{name}"'] = None
        once[key] = packed
    redaction = Redaction()
    for key in sorted(once):
        redaction.add(key[1], once[key])
    head = [f"Recorded from {source} by trxds.", "Credentials, private keys and inline secrets are left out:"]
    head += [f"- {each}" for each in redaction.left_out] or ["- none were found"]
    if differing:
        head += [
            "Its channels have different versions of these, and here is the newest:",
            *map("- {}".format, differing),
        ]
    comment = "".join(f"# {_printable(line)}\n" for line in head)
    _write(path, comment + yaml.safe_dump(redaction.resources, sort_keys=False, allow_unicode=False))
    counts = [plural(len(redaction.resources), "resource"), f"{plural(len(redaction.left_out), 'field')} left out"]
    if differing:
        counts.append(f"{plural(len(differing), 'resource')} of which channels have different versions")
    return f"{path}: {'; '.join(counts)}"


def _printable(text: str) -> str:
    # A name may hold anything, and a line end would end the comment.
    return text.encode("unicode_escape").decode("ascii")


def _write(path: Path, text: str) -> None:
    """Write the file at once, or not at all: nobody may read half of it, nor with the permissions of an old one."""
    path = Path(os.path.realpath(path))  # a link stays one
    if path.exists() and not path.is_file():
        path.write_text(text, "utf-8")  # a pipe or a device, such as /dev/stdout, which is not to be replaced
        return
    descriptor, new = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # for its owner alone
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(new).replace(path)
    except BaseException:
        Path(new).unlink(missing_ok=True)
        raise
