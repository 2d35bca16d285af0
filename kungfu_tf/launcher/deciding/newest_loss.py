"""Tells the user how long a loss has kept the others."""

import time
from collections.abc import Callable

from kungfu_tf.launcher.options.plural import plural


class NewestLoss:
    """The newest loss of peers, or their leaving.

    Args:
        say: Prints a line for the user.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._what = ""
        self._when = 0.0
        self._is_missed = False

    def happened(self, what: str, *, is_missed: bool) -> None:
        """There was one.

        Args:
            what: "the loss of rank 2 (10.0.0.1:10002)".
            is_missed: Whether others will come in their place.
        """
        self._what, self._when, self._is_missed = what, time.monotonic(), is_missed

    def go_on(self, size: int) -> None:
        """All others have gone on."""
        self._tell(size, "went on")

    def train_again(self, size: int) -> None:
        """As many peers as are wanted train together."""
        if self._is_missed:
            self._is_missed = False
            self._tell(size, "train again")

    def _tell(self, size: int, what: str) -> None:
        seconds = f"{time.monotonic() - self._when:.2f} s"
        self._say(f"{plural(size, 'peer')} {what} {seconds} after {self._what}")
