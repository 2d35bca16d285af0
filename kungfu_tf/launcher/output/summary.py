"""What is said at the end of a job that did not end well."""

import dataclasses
import signal
from collections.abc import Sequence

from kungfu_tf.launcher.channels.control import EARLIER
from kungfu_tf.launcher.processes import peer_process

_ONE_TURN = 1.0  # seconds: what the runner sees in one turn of its loop has no order


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one peer ended.

    `gone`: when it was last known to live, by its control connection or its process, whichever
    went first. `stopped`: it ended after the launcher had asked it to. `given_up`: the launcher
    killed it, since it gave no sign of life. `let_go`: it had been told that the others go on
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
    let_go: bool
    reports: Sequence[str]
    earlier: Sequence[str]
    last_lines: Sequence[str]

    @property
    def failed(self) -> bool:
        return self.code != 0 and not self.stopped


def first_failure(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The peer that the others' failures follow from.

    Not the one whose process ended first: a peer that was told of an error may be faster out of
    the door than the one that had it. Who reported that an operation failed was waiting for
    somebody else; among the rest it is the one whose control connection closed first.
    """
    failures = [outcome for outcome in outcomes if outcome.failed]
    if not failures:
        return None
    return min(failures, key=_precedence)


def _precedence(outcome: Outcome) -> tuple[bool, float, bool, int]:
    return bool(outcome.reports), outcome.gone, outcome.code >= 0, outcome.rank


def may_be_missed(outcomes: Sequence[Outcome], first: Outcome | None) -> list[Outcome]:
    """The peers that have ended well, and whose end the first failure may follow from.

    Who reported that an operation failed was waiting for somebody else. Where all that failed have,
    it may be for one that had no more to do, or called os._exit(0) in the middle; but for none that
    was let go long before.
    """
    if first is None or not first.reports:
        return []
    return [
        outcome
        for outcome in outcomes
        if outcome.code == 0
        and not (outcome.stopped or outcome.reports)
        and outcome.gone < first.gone + _ONE_TURN
        and not (outcome.let_go and first.gone - outcome.gone > EARLIER)
    ]


def describe(outcomes: Sequence[Outcome]) -> str:
    """The summary: the first failure, its last lines, then how the others ended, what they saw.

    Before it, who may have been waited for.
    """
    first = first_failure(outcomes)
    missed = may_be_missed(outcomes, first)
    lines = []
    for outcome in missed:
        lines.append(
            f"{_peer(outcome)} may have been waited for: {_cause(outcome)}, after"
            f" {outcome.seconds:.1f} s"
        )
        lines += saw(outcome)
    if first is not None:
        lines.append(f"{_peer(first)} failed first: {_cause(first)}, after {first.seconds:.1f} s")
        lines += saw(first)
        if first.last_lines:
            lines.append("  its last lines:")
            lines += [f"  | {line}" for line in _told_once(first.last_lines)]
    for outcome in outcomes:
        if outcome is not first and outcome not in missed:
            lines.append(_other(outcome))
            lines += saw(outcome)
    return "\n".join(lines)


def saw(outcome: Outcome) -> list[str]:
    """A line for each error that a peer has reported."""
    earlier = [f"  reported long before: {report}" for report in outcome.earlier]
    return earlier + [f"  reported: {report}" for report in outcome.reports]


def _told_once(lines: Sequence[str]) -> list[str]:
    """Without what only marks places, and without frames that a traceback names again."""
    return list(dict.fromkeys(line for line in lines if line.strip(" ^~")))


def _cause(outcome: Outcome) -> str:
    how = peer_process.describe(outcome.code)
    if outcome.code != -signal.SIGKILL:
        return how
    if outcome.given_up:
        return f"{how} (by kungfu-run: it gave no sign of life)"
    return f"{how} (by the kernel if memory ran out: see dmesg)"


def _other(outcome: Outcome) -> str:
    how = peer_process.describe(outcome.code)
    if outcome.stopped and outcome.code != 0:
        how = f"stopped ({how})"
    return f"{_peer(outcome)}: {how}"


def _peer(outcome: Outcome) -> str:
    return f"rank {outcome.rank} on {outcome.host} (pid {outcome.pid})"
