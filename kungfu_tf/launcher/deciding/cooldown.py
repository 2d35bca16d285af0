"""Hosts on which no newcomer starts for a while, because they have lost peers."""

import time
from collections.abc import Callable

from kungfu_tf.launcher.placing.hosts import IPAddress


class Cooldown:
    """How long hosts are left alone.

    With each loss a host is left alone for twice as long. A host that was well for the longest time
    afterwards begins anew.

    Args:
        first: Seconds after the first loss.
        longest: The most seconds.
        clock: The time in seconds.
    """

    def __init__(
        self, first: float, longest: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._first = first
        self._longest = longest
        self._clock = clock
        self._hosts: dict[IPAddress, tuple[float, float]] = {}  # how long, and until when

    def begin(self, host: IPAddress) -> None:
        """A host has lost a peer."""
        now = self._clock()
        seconds, until = self._hosts.get(host, (0.0, now))
        is_new = seconds == 0 or now > until + self._longest
        seconds = self._first if is_new else min(self._longest, 2 * seconds)
        self._hosts[host] = seconds, now + seconds

    def is_over(self, host: IPAddress) -> bool:
        """Whether a newcomer may start on a host."""
        return host not in self._hosts or self._clock() >= self._hosts[host][1]
