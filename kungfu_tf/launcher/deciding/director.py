"""The interfaces between decisions about a job and the runners that carry them out.

The runner of the first host leads: its Leader (leader.py) decides for all hosts. A runner reports
to a Director. On the first host that is the Leader itself, elsewhere a Follower (follower.py),
which asks the Leader. A Host carries decisions out: this runner itself (own_host.py), or the one of
another host (far_host.py). Each peer has a number: its rank when the job starts, then one more for
each newcomer.
"""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from kungfu_tf.launcher.channels.control import Answer

LOST = 1  # the exit code of a job that has lost a host


class Host(Protocol):
    """The runner of one host, seen from where decisions are made. Nothing happens in the call."""

    @property
    def was_up(self) -> bool:
        """Whether a peer of this host has been ready to work with others, as far as is known."""

    def start(self, number: int, version: int) -> None:
        """Starts a newcomer. `version` is the job's current membership version."""

    def dismiss(self, number: int) -> None:
        """Stops a newcomer that is not needed."""

    def forgive(self, number: int) -> None:
        """From now on the end of this peer is no failure, whatever its code."""

    def publish(self, version: int, since: int, peers: Sequence[str], told: Sequence[int]) -> None:
        """Tells some of its peers which peers take part; `since`: see Actions.publish."""

    def failed(self, peer: str, text: str) -> None:
        """Tells all peers of this host that a peer has failed, perhaps one of another host."""

    def finished(self, peer: str) -> None:
        """Tells all peers of this host that a peer has finished."""

    def warn(self, signum: int) -> None:
        """Sends a signal to all of its peers, which may go on."""

    def stop_all(self, first: int, code: int) -> None:
        """Stops all peers of this host with signal `first`; 0: tells them of a failure.

        `code`: the exit code of the job.
        """


class Director(Protocol):
    """A runner reports to it.

    Attributes:
        code: The exit code of the job, as far as other hosts determine it.
        again: The number of peers with which the job starts anew after its end; None: it does not.
        recovering: Whether a failure is the reason for that.
        early_failure: The exit code of a failure before any peer was up; None: there was none.
        over: Whether this runner may end.
        size: The number of peers that take part, as far as this host knows.
        due: The time.monotonic() at which advance() must be called. Apart from that, once a second
            is enough.
    """

    code: int
    again: int | None
    recovering: bool
    early_failure: int | None

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
        """A peer asks for a number of peers; None: the number that the config server says."""

    def ended(self, number: int, code: int, *, stopped: bool) -> None:
        """A process has ended; `stopped`: after this runner had asked it to."""

    def warned(self, signum: int, times: int) -> None:
        """This runner has got a signal for the peers, so many times by now.

        A batch system may send it to one runner or to all. Each peer gets it as many times as the
        runner that has got it most often.
        """

    def stop_all(self, first: int, code: int) -> None:
        """This runner stops its peers, and all other runners must do the same."""

    def advance(self) -> None:
        """Does the work that is due. Called repeatedly."""

    def close(self) -> None:
        """Ends, and sends nothing more."""


@dataclasses.dataclass(frozen=True)
class Rules:
    """The rules by which the Leader decides.

    Attributes:
        watch: The membership may change.
        reload: By starting all peers anew, not by newcomers.
        keep: The job may be started anew when all peers have finished.
        recoveries: How often more it is started anew after a failure.
        early_failure: That of the start before. The same one again ends the job.
    """

    watch: bool = False
    reload: bool = False
    keep: bool = False
    recoveries: int = 0
    early_failure: int | None = None
