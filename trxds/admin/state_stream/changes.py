"""The differences between one snapshot and the next. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .messages import Change, Section, State


def changes(before: State, after: State) -> list[Change]:
    """Return the changes that turn `before` into `after`, by `apply`."""
    return [change for name, section in after.items() for change in _of_section(name, before.get(name, {}), section)]


def _of_section(name: str, before: Section, after: Section) -> Iterator[Change]:
    if before is after:
        return
    for key in before.keys() - after.keys():
        yield {"section": name, "key": key, "value": None}
    for key, row in after.items():
        old = before.get(key)
        if old is not row and old != row:
            yield {"section": name, "key": key, "value": row}


def apply(state: State, changes: Iterable[Change]) -> State:
    """Return the state of a viewer after these changes."""
    after = {name: dict(section) for name, section in state.items()}
    for change in changes:
        section = after.setdefault(change["section"], {})
        if change["value"] is None:
            section.pop(change["key"], None)
        else:
            section[change["key"]] = change["value"]
    return after
