"""All scripts by name, which are the names of the rows of docs/hostile-servers.md."""

from __future__ import annotations

from . import answers, floods, frames, goodbyes, interop, windows
from .peer import Script

SCRIPTS: dict[str, Script] = {
    script.name: script
    for chapter in (interop, answers, frames, windows, goodbyes, floods)
    for script in vars(chapter).values()
    if isinstance(script, Script)
}
