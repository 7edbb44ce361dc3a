"""Which hosts are ejected for one subtree (A50): a port that outlier detection gives to the nodes below it.

Ejection belongs to that policy and not to the subchannel, for one address may serve two
clusters and fail in one. A change is a letter to the nodes that lease the address, and no new
generation.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from trxds.ground.channels import Mailbox


class Health:
    """`ejected` is what counts here: this level's own, and what the levels above have ejected."""

    __slots__ = ("_above", "_below", "_followers", "_own", "ejected")

    def __init__(self, above: Health | None = None) -> None:
        self.ejected: frozenset[str] = frozenset()
        self._above = above
        self._own: frozenset[str] = frozenset()
        self._followers: dict[Mailbox[Any], Collection[str]] = {}
        self._below: list[Health] = []
        if above is not None:
            above._below.append(self)
        self._renew()

    def follow(self, mailbox: Mailbox[Any], leased: Collection[str]) -> None:
        """Tell `mailbox` when an address that is in `leased` by then is ejected or comes back."""
        self._followers[mailbox] = leased

    def leave(self, mailbox: Mailbox[Any]) -> None:
        self._followers.pop(mailbox, None)

    def eject(self, addresses: frozenset[str]) -> None:
        """These and no others are ejected by this level from now on."""
        changed = self._own ^ addresses
        self._own = addresses
        if changed:
            self._renew()
            self._tell(changed)

    def end(self) -> None:
        """Whoever ejected is gone, and the subtree with it."""
        if self._above is not None:
            self._above._below.remove(self)

    def _renew(self) -> None:
        self.ejected = self._own | self._above.ejected if self._above is not None else self._own
        for level in self._below:
            level._renew()

    def _tell(self, changed: frozenset[str]) -> None:
        for mailbox, leased in self._followers.items():
            if any(address in leased for address in changed):
                mailbox.put("health", None)
        for level in self._below:
            level._tell(changed)
