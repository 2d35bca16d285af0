"""Who decides for a job, and what the runner of each host does because of that.

One runner leads, that of the first host: its Leader (leader.py) decides for all. A runner reports
to a Director: on the first host to the Leader itself, elsewhere to a Follower (follower.py), which
asks the first host's. What is decided is done by a Host: the runner itself (own_host.py), or one
far away (far_host.py). Peers are known by numbers: the ranks that the job starts with, then one
more each.
"""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from kungfu_tf.launcher.channels.control import Answer

LOST = 1  # what a job ends with that has lost a host


class Host(Protocol):
    """The runner of one host, seen from where decisions are made. Nothing happens in the call."""

    def start(self, number: int, version: int) -> None:
        """One more peer, which is to join a job of which this is the membership's version."""

    def dismiss(self, number: int) -> None:
        """Stops a newcomer that is not needed."""

    def forgive(self, number: int) -> None:
        """However this one ends, it is no failure."""

    def publish(self, version: int, since: int, peers: Sequence[str], told: Sequence[int]) -> None:
        """Tells some of its peers which peers take part; `since`: see Actions.publish."""

    def failed(self, peer: str, text: str) -> None:
        """Tells all of its peers that one has failed, which need not be of this host."""

    def finished(self, peer: str) -> None:
        """Tells them that one has finished."""

    def warn(self, signum: int) -> None:
        """Sends a signal to all of its peers, which may go on."""

    def stop_all(self, first: int, code: int) -> None:
        """Stops all of its peers: told of a failure if `first` is 0, else with that signal.

        `code`: what the job ends with.
        """


class Director(Protocol):
    """A runner reports to it.

    Attributes:
        code: What the job ends with as far as other hosts have a say in it.
        again: As how many peers the job is to be started anew when it has ended; None: not.
        recovering: Whether that is because of a failure.
        over: Whether this runner may end.
        size: How many peers take part, as far as this host has been told.
        due: When advance() has something to do; a time of time.monotonic(). Once a second will do
            for the rest.
    """

    code: int
    again: int | None
    recovering: bool

    @property
    def over(self) -> bool: ...

    @property
    def size(self) -> int: ...

    @property
    def due(self) -> float: ...

    def started(self, number: int, peer: str) -> None:
        """A newcomer has a name, and a process."""

    def ready(self, number: int) -> None:
        """A newcomer can be taken in."""

    def entered(self, number: int, version: int) -> None:
        """A peer has gone over to a membership."""

    def propose(self, number: int, size: int | None, answer: Answer) -> None:
        """A peer asks for so many peers, or as many as the config server says."""

    def ended(self, number: int, code: int, *, stopped: bool) -> None:
        """A process has ended; `stopped`: after this runner had asked it to."""

    def warned(self, signum: int, times: int) -> None:
        """This runner has got a signal for the peers, so many times by now.

        A batch system may send it to one runner or to all. Each peer gets it as many times as the
        runner that has got it most often.
        """

    def stop_all(self, first: int, code: int) -> None:
        """This runner stops its peers, and so shall all."""

    def advance(self) -> None:
        """Does what is due by the clock. To be called now and then."""

    def close(self) -> None:
        """Ends without further words."""


@dataclasses.dataclass(frozen=True)
class Rules:
    """What is to be done when.

    Attributes:
        watch: The membership may change.
        reload: By starting all peers anew, not by newcomers.
        keep: The job may be started anew when all peers have finished.
        recoveries: How often more it is started anew after a failure.
    """

    watch: bool = False
    reload: bool = False
    keep: bool = False
    recoveries: int = 0
