"""How the peers ended, and which failure is the cause of the others."""

import dataclasses
from collections.abc import Sequence

from kungfu_tf.launcher.channels.control import EARLIER, Contact
from kungfu_tf.launcher.processes.peer_process import PeerProcess

_ONE_TURN = 1.0  # seconds: events of one turn of the runner's loop have no order
_CLOSED_ON_PURPOSE = 10.0  # seconds from the end of a connection to that of the process


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one peer ended.

    Attributes:
        rank: Its rank.
        host: Its host.
        pid: Its process.
        code: Its exit code; negative if a signal has killed it.
        seconds: How long it ran.
        gone: When it was last known to live: the end of its control connection or of its process,
            whichever came first.
        stopped: Whether the launcher had asked it to end.
        forgiven: Whether the others could go on without it.
        given_up: Whether the launcher killed it because it gave no sign of life.
        overdue: Whether the launcher killed it because it had not ended within KUNGFU_GRACE.
        leaving: Whether it was told that the others go on without it.
        reports: The errors that it reported shortly before its end.
        earlier: The errors that it reported long before.
        last_lines: The last lines of its output.
    """

    rank: int
    host: str
    pid: int
    code: int
    seconds: float
    gone: float
    stopped: bool
    forgiven: bool
    given_up: bool
    overdue: bool
    leaving: bool
    reports: Sequence[str]
    earlier: Sequence[str]
    last_lines: Sequence[str]

    @property
    def failed(self) -> bool:
        return self.code != 0 and not (self.stopped or self.forgiven)

    @property
    def lost(self) -> bool:
        return self.code != 0 and self.forgiven


def outcome_of(
    entry: PeerProcess,
    contact: Contact,
    *,
    stopped: bool,
    forgiven: bool,
    given_up: bool,
    overdue: bool,
    last_lines: Sequence[str],
) -> Outcome:
    """The outcome of a process that has ended. The arguments are those of Outcome."""
    assert entry.code is not None and entry.ended is not None
    earlier = [r.text for r in contact.reports if entry.ended - r.at > EARLIER]
    return Outcome(
        rank=entry.peer.rank,
        host=str(entry.peer.address),
        pid=entry.pid,
        code=entry.code,
        seconds=entry.ended - entry.started,
        gone=_gone(entry.ended, contact.lost),
        stopped=stopped,
        forgiven=forgiven,
        given_up=given_up,
        overdue=overdue,
        leaving=contact.leaving,
        reports=[report.text for report in contact.reports[len(earlier) :]],
        earlier=earlier,
        last_lines=last_lines,
    )


def _gone(ended: float, lost: float | None) -> float:
    """When it was last known to live. A connection that ended long before was closed on purpose."""
    long_before = lost is not None and ended - lost > _CLOSED_ON_PURPOSE
    return ended if lost is None or long_before else min(ended, lost)


def first_failure(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The peer whose failure is the cause of the others'.

    Its process need not have ended first: a peer that was told of an error may end before the one
    that had it. A peer that reported a failed operation was waiting for another one. Among the
    others it is the peer whose control connection closed first.
    """
    failures = [outcome for outcome in outcomes if outcome.failed]
    if not failures:
        return None
    return min(failures, key=_precedence)


def _precedence(outcome: Outcome) -> tuple[bool, float, bool, int]:
    return bool(outcome.reports), outcome.gone, outcome.code >= 0, outcome.rank


def may_be_missed(outcomes: Sequence[Outcome], first: Outcome | None) -> list[Outcome]:
    """The peers that have finished, and for which the first failed peer may have waited.

    If all failed peers have reported an error, they may have waited for a peer that had finished,
    or had called os._exit(0). A peer that had left long before is none of these.
    """
    if first is None or not first.reports:
        return []
    return [
        outcome
        for outcome in outcomes
        if outcome.code == 0
        and not (outcome.stopped or outcome.reports)
        and outcome.gone < first.gone + _ONE_TURN
        and not (outcome.leaving and first.gone - outcome.gone > EARLIER)
    ]
