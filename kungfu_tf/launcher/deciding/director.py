"""The interfaces between decisions about a job and the runners that carry them out.

The runner of the first host leads: its Leader (leader.py) decides for all hosts. Each runner
reports to a Director. On the first host that is the Leader itself. On the others it is a Follower
(follower.py), which asks the Leader. With a store that says which runner leads, it is a Succession
(succession.py), by which another runner may lead later. A Host carries decisions out: this runner
(own_host.py), or that of another host (far_host.py). Each peer has a number: its rank when the job
starts, and the next number for each newcomer.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Protocol

from kungfu_tf.launcher.channels.control import Answer

LOST = 1  # the exit code of a job that has lost a host


class Host(Protocol):
    """The runner of one host, as the decisions see it. Calls return before anything happens."""

    @property
    def has_begun(self) -> bool:
        """Whether a collective has succeeded on a peer of this host, as far as is known."""

    def start(self, number: int, version: int) -> None:
        """Starts a newcomer. `version` is the job's current membership version."""

    def dismiss(self, number: int) -> None:
        """Stops a newcomer that is not needed."""

    def forgive(self, number: int) -> None:
        """Makes any end of this peer from now on no failure."""

    def publish(
        self,
        version: int,
        since: int,
        peers: Sequence[str],
        told: Sequence[int],
        lost: str = "",
    ) -> None:
        """Tells some of its peers which peers take part. For `since` see Actions.publish.

        With `lost` they go on at once without others; the text tells who was lost, and how.
        """

    def renew(self, version: int, told: Sequence[int]) -> None:
        """Tells some of its peers to make their connections with each other anew.

        The list of that version is published next.
        """

    def failed(self, peer: str, text: str) -> None:
        """Tells all peers of this host that a peer has failed, perhaps one of another host."""

    def finished(self, peer: str) -> None:
        """Tells all peers of this host that a peer has finished."""

    def warn(self, signum: int) -> None:
        """Sends a signal that does not end the job to all of its peers."""

    def stop_all(self, first: int, code: int) -> None:
        """Stops all peers of this host.

        Args:
            first: The first signal; 0: they get time to end because of a failure.
            code: The exit code of the job.
        """


class Director(Protocol):
    """Takes the reports of a runner.

    Attributes:
        code: The exit code of the job, as far as other hosts determine it.
        outlives: Whether the job may go on without this host.
        again: The number of peers with which the job starts anew after its end; None: it does not.
        recovering: Whether it starts anew because of a failure.
        early_failure: The exit code of a failure before the first collective; None: there was none.
        over: Whether this runner may end.
        size: The number of peers that take part, as far as this host knows.
        due: The time.monotonic() at which advance() must be called. Otherwise once a second is
            enough.
    """

    @property
    def code(self) -> int: ...

    @property
    def outlives(self) -> bool: ...

    @property
    def again(self) -> int | None: ...

    @property
    def recovering(self) -> bool: ...

    @property
    def early_failure(self) -> int | None: ...

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
        """A peer has changed over to a membership."""

    def broken(self, number: int, version: int) -> None:
        """A connection of a peer with another one of that membership has broken."""

    def propose(self, number: int, size: int | None, answer: Answer) -> None:
        """A peer asks for a number of peers; None: for the one that the config server says."""

    def notice(self, number: int, answer: Answer) -> None:
        """A peer has got SIGTERM. Answers whether the others go on without it, or the job ends."""

    def leave(self, number: int, answer: Answer) -> None:
        """A peer leaves between two steps. Answers as above, after the others were told."""

    def ended(self, number: int, code: int, *, stopped: bool) -> None:
        """A process has ended. `stopped`: this runner had asked it to end."""

    def warned(self, signum: int, times: int) -> None:
        """This runner has received a signal for the peers.

        A batch system may send it to one runner or to all. Each peer gets it as often as the runner
        that has received it most often.

        Args:
            signum: The signal.
            times: How often this runner has received it.
        """

    def stop_all(self, first: int, code: int) -> None:
        """Stops the peers of this runner and of all others."""

    def advance(self) -> None:
        """Does the work that is due. Called repeatedly."""

    def close(self) -> None:
        """Ends. Nothing is sent any more."""


@dataclasses.dataclass(frozen=True)
class Rules:
    """The rules by which the Leader decides.

    Attributes:
        watch: Whether the membership may change.
        reload: Whether it changes by starting all peers anew, and not by newcomers.
        keep: Whether the job may be started anew when all peers have finished.
        recoveries: How many more times the job is started anew after a failure.
        early_failure: That of the previous start. The same one again ends the job.
        least: The least number of peers with which the job goes on after some were lost; None: it
            ends when one is.
        outlives_errors: Whether it goes on without a peer that a program's error has ended, too.
        replaced: How many lost peers are replaced at most.
        spares: How many newcomers are started at once, and wait for that.
        cooldown: For how many seconds, at first and at most, no newcomer starts on a host that has
            lost a peer. With `replaced` only.
        changes: How often the membership may change. One more change ends the job.
    """

    watch: bool = False
    reload: bool = False
    keep: bool = False
    recoveries: int = 0
    early_failure: int | None = None
    least: int | None = None
    outlives_errors: bool = False
    replaced: float = 0
    spares: int = 0
    cooldown: tuple[float, float] = (0, 0)
    changes: float = math.inf
