"""How the peers ended, and whose failure the others follow from."""

import dataclasses
from collections.abc import Sequence

from kungfu_tf.launcher.channels.control import EARLIER, Contact
from kungfu_tf.launcher.processes.peer_process import PeerProcess

_ONE_TURN = 1.0  # seconds: events of one turn of the runner's loop have no order
_CLOSED_ON_PURPOSE = 10.0  # seconds from the end of a connection to that of the process


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one peer ended.

    `gone`: when it was last known to live, by its control connection or its process, whichever
    went first. `stopped`: it ended after the launcher had asked it to. `given_up`: the launcher
    killed it, since it gave no sign of life. `overdue`: the launcher killed it, since it had not
    ended within KUNGFU_GRACE. `leaving`: it had been told that the others go on
    without it. `reports`: errors that it saw before its end; `earlier`: others, after which it
    lived on.
    """

    rank: int
    host: str
    pid: int
    code: int
    seconds: float
    gone: float
    stopped: bool
    given_up: bool
    overdue: bool
    leaving: bool
    reports: Sequence[str]
    earlier: Sequence[str]
    last_lines: Sequence[str]

    @property
    def failed(self) -> bool:
        return self.code != 0 and not self.stopped


def outcome_of(
    entry: PeerProcess,
    contact: Contact,
    *,
    stopped: bool,
    given_up: bool,
    overdue: bool,
    last_lines: Sequence[str],
) -> Outcome:
    """Describes a process that has ended; the arguments are those of Outcome."""
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
        given_up=given_up,
        overdue=overdue,
        leaving=contact.leaving,
        reports=[report.text for report in contact.reports[len(earlier) :]],
        earlier=earlier,
        last_lines=last_lines,
    )


def _gone(ended: float, lost: float | None) -> float:
    """A connection that was closed long before the process ended was closed on purpose."""
    long_before = lost is not None and ended - lost > _CLOSED_ON_PURPOSE
    return ended if lost is None or long_before else min(ended, lost)


def first_failure(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The peer that the others' failures follow from.

    Not always the one whose process ended first: a peer that was told of an error may end before
    the one that had it. A peer that reported a failed operation was waiting for another one.
    Otherwise it is the peer whose control connection closed first.
    """
    failures = [outcome for outcome in outcomes if outcome.failed]
    if not failures:
        return None
    return min(failures, key=_precedence)


def _precedence(outcome: Outcome) -> tuple[bool, float, bool, int]:
    return bool(outcome.reports), outcome.gone, outcome.code >= 0, outcome.rank


def may_be_missed(outcomes: Sequence[Outcome], first: Outcome | None) -> list[Outcome]:
    """The peers that have finished, and whose end the first failure may follow from.

    A peer that reported a failed operation was waiting for another one. If all failed peers have
    reported an error, they may have waited for a peer that had finished, or had called os._exit(0).
    A peer that was leaving long before is none of these.
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
