"""The verdict on a job: its exit code, and the reason for it."""

import signal
from collections.abc import Sequence
from typing import NamedTuple

from kungfu_tf.launcher.output import summary
from kungfu_tf.launcher.output.outcome import Outcome, first_failure
from kungfu_tf.launcher.output.output_wait import TIMED_OUT
from kungfu_tf.launcher.processes import peer_process


class Verdict(NamedTuple):
    """The exit code, and a message with the reason; None: all peers of this host have finished."""

    code: int
    reason: str | None


def conclude(outcomes: Sequence[Outcome], *, forced: int | None, others: int) -> Verdict:
    """The verdict on a job that has ended.

    Args:
        outcomes: The outcomes of this host's peers.
        forced: The exit code if a signal or the timeout has ended the job.
        others: The exit code that the other hosts ask for; 0: none.
    """
    first = first_failure(outcomes)
    reason = None
    if first is not None or forced == TIMED_OUT:
        reason = summary.describe(outcomes)
    elif forced is not None:
        name = signal.Signals(forced - 128).name
        lines = [f"stopped by {name}; no peer failed", *summary.killed_late(outcomes)]
        reason = "\n".join(lines)
    if forced is not None:
        return Verdict(forced, reason)
    if first is not None:
        return Verdict(peer_process.exit_code(first.code), reason)
    return Verdict(others, reason)
