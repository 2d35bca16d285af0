"""Finds peers that give no sign of life, which they should give every second."""

import time
from collections.abc import Callable, Mapping

from kungfu_tf.launcher.channels.control import Contact

SILENT_AFTER = 10.0
_ABSENT = 3.0  # between two looks: this process has not run meanwhile


class Heartbeat:
    """Reports silent peers, and gives them up after some time. Used by the event loop's thread
    only.

    Attributes:
        given_up: The peers that were given up.

    Args:
        contacts: The state of each peer, by its number.
        say: Prints a line for the user.
        give_up_after: Seconds after which a silent peer is given up; None or 0: never.
        give_up: Ends a peer.
    """

    def __init__(
        self,
        contacts: Mapping[int, Contact],
        *,
        say: Callable[[str], None],
        give_up_after: float | None,
        give_up: Callable[[int], None],
    ) -> None:
        self._contacts = contacts
        self._say = say
        self._give_up_after = give_up_after
        self._give_up = give_up
        self._silent: set[int] = set()
        self._looked = time.monotonic()
        self.given_up: set[int] = set()

    def check(self) -> None:
        """Looks at all peers. To be called every second."""
        now = time.monotonic()
        before, self._looked = self._looked, now
        if now - before > _ABSENT:
            return  # what has come meanwhile has to be read first
        for number, contact in self._contacts.items():
            silent = now - (contact.heard or now) if contact.connected else 0.0
            limit = self._give_up_after
            if limit and silent > limit and number not in self.given_up:
                self.given_up.add(number)
                self._say(f"rank {number} is killed: no sign of life for {limit:g} s")
                self._give_up(number)
            quiet = silent > SILENT_AFTER
            if quiet and number not in self._silent:
                self._silent.add(number)
                self._say(f"rank {number} has given no sign of life for {SILENT_AFTER:g} s")
            elif not quiet and number in self._silent:
                self._silent.discard(number)
                if contact.connected:
                    self._say(f"rank {number} is heard again")
