"""The report at the end of a job in which a peer failed, or which took too long."""

import signal
from collections.abc import Sequence

from kungfu_tf.launcher.output.outcome import Outcome, first_failure, may_be_missed
from kungfu_tf.launcher.processes import peer_process


def describe(outcomes: Sequence[Outcome]) -> str:
    """The summary: the first failure with its last lines, then the ends of the other peers.

    The peers without which the job went on come before, and those for which it may have waited.
    """
    first = first_failure(outcomes)
    missed = may_be_missed(outcomes, first)
    lost = sorted((one for one in outcomes if one.lost), key=lambda one: one.gone)
    lines = []
    for outcome in lost:
        lines.append(f"{_peer(outcome)} was lost: {_cause(outcome)}, after {outcome.seconds:.1f} s")
        lines += [*saw(outcome), *_last_lines(outcome)]
    for outcome in missed:
        lines.append(
            f"{_peer(outcome)} may have been waited for: {_cause(outcome)}, after"
            f" {outcome.seconds:.1f} s"
        )
        lines += saw(outcome)
    if first is not None:
        when = "then" if lost else "first"
        lines.append(f"{_peer(first)} failed {when}: {_cause(first)}, after {first.seconds:.1f} s")
        lines += [*saw(first), *_last_lines(first)]
    for outcome in outcomes:
        if outcome is not first and outcome not in (*missed, *lost):
            lines.append(_other(outcome))
            lines += saw(outcome)
    return "\n".join(lines)


def killed_late(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each peer that was killed because it had not ended in time."""
    late = [outcome for outcome in outcomes if outcome.overdue]
    return [_other(outcome) for outcome in late if outcome.code == -signal.SIGKILL]


def saw(outcome: Outcome) -> list[str]:
    """A line for each error that a peer has reported."""
    earlier = [f"  reported long before: {report}" for report in outcome.earlier]
    return earlier + [f"  reported: {report}" for report in outcome.reports]


def _last_lines(outcome: Outcome) -> list[str]:
    if not outcome.last_lines:
        return []
    return ["  its last lines:", *(f"  | {line}" for line in _told_once(outcome.last_lines))]


def _told_once(lines: Sequence[str]) -> list[str]:
    """The lines, each once, without those that only mark places, as in a traceback."""
    return list(dict.fromkeys(line for line in lines if line.strip(" ^~")))


def _cause(outcome: Outcome) -> str:
    how = peer_process.describe(outcome.code)
    if outcome.code != -signal.SIGKILL:
        return how
    if outcome.overdue:
        return f"{how}: it had not ended within KUNGFU_GRACE"
    if outcome.given_up:
        return f"{how} (by kungfu-run: it gave no sign of life)"
    return f"{how} (by the kernel if memory ran out: see dmesg)"


def _other(outcome: Outcome) -> str:
    how = _cause(outcome) if outcome.overdue else peer_process.describe(outcome.code)
    if outcome.stopped and outcome.code != 0:
        how = f"stopped ({how})"
    return f"{_peer(outcome)}: {how}"


def _peer(outcome: Outcome) -> str:
    return f"rank {outcome.rank} on {outcome.host} (pid {outcome.pid})"
