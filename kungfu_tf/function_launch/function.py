"""`launch`, as the caller sees it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from kungfu_tf import config, errors
from kungfu_tf.function_launch import arguments, channel, pickling, programs, results
from kungfu_tf.function_launch.channel import Channel
from kungfu_tf.function_launch.relay import Relay
from kungfu_tf.function_launch.report import Report
from kungfu_tf.function_launch.results import Child
from kungfu_tf.launcher.deciding import own_host
from kungfu_tf.launcher.output import summary
from kungfu_tf.launcher.output.outcome import Outcome
from kungfu_tf.launcher.output.output_wait import TIMED_OUT
from kungfu_tf.launcher.processes import peer_process

T = TypeVar("T")


def launch(fn: Callable[[int], T], np: int, *, timeout: float | None = None) -> list[T]:
    """Runs `fn(rank)` in `np` new processes of this machine, which are the peers of a job.

    For notebooks, and scripts that are not started by `kungfu-run`. The processes get what
    `kungfu-run -np <np>` gives its peers: ranks, ports, a secret, one GPU each. Their output
    appears here, each line with its rank in front. They are new interpreters, in which nothing is
    imported yet, and end with this process, however it ends.

    `fn` may be a lambda or a closure, or be defined in a notebook or in the program itself. The
    program is not run again, and needs no `if __name__ == "__main__"`. `fn` is sent with everything
    that it uses, by cloudpickle. So it should itself import or build large objects, and those that
    belong to one process. What a module defines is imported from there.

    The first process that fails ends the others. KeyboardInterrupt (in a notebook: interrupt the
    kernel) ends all of them, with KUNGFU_GRACE seconds to clean up; a second one ends them at once.

    Args:
        fn: Called with the rank, 0 to np − 1.
        np: The number of processes.
        timeout: How many seconds all of it may take; None: any time.

    Returns:
        The results of `fn`, by rank.

    Raises:
        PeerFailedError: If `fn` raised, or a process exited or was killed. The message names rank
            and host and has the traceback from there; `__cause__` is the exception of `fn`, if it
            can be pickled.
        DeadlineExceededError: If the processes did not end within `timeout`.
        InvalidArgumentError: If `fn` cannot be pickled. If its result cannot, this is the cause of
            a PeerFailedError.
        FailedPreconditionError: If this process is a peer itself, or the job cannot be started.
        ResourceExhaustedError: If there are too few file descriptors for that many processes.
        TypeError, ValueError: If an argument is invalid.

    Example:

    ```python
    def train(rank):
        model = make_model()
        model.compile(kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)), "mse")
        return model.fit(kf.data.shard(dataset()).batch(32)).history["loss"]

    losses = kf.launch(train, 4)
    ```
    """
    np = arguments.checked("launch", fn, np, timeout)
    seconds = math.inf if timeout is None else float(timeout)
    # A request to end is followed by two stronger ones; processes left behind are ended last.
    grace = 3 * config.GRACE.get() + own_host.STRAGGLERS_DEADLINE + 1.0
    with channel.opened(np) as files:
        channel.write(files.function, pickling.dump_call(fn))
        descriptors = [files.report, files.function, *files.results]
        command = programs.command(
            "kungfu_tf.function_launch.runner", [os.getpid(), seconds, *descriptors]
        )
        deadline = time.monotonic() + seconds + grace
        in_time = Relay(command, descriptors, grace=grace).run(deadline)
        outcomes = _outcomes(files, seconds, in_time)
        return [results.value_of(_child(files, outcome)) for outcome in outcomes]


def _outcomes(files: Channel, timeout: float, in_time: bool) -> Sequence[Outcome]:
    """How each process ended, by rank, if all of them ended well.

    Raises:
        KungfuError: If they did not.
    """
    record = channel.read(files.report)
    if record is None:
        how = "was killed" if in_time else f"did not end in time, {timeout:g} s,"
        raise errors.UnavailableError(
            f"launch: the process that starts and watches the others {how} and left no report"
        )
    report = Report.from_json(bytes(record))
    if report.error is not None:
        raise errors.FailedPreconditionError(f"launch: {report.error}")
    if report.first is not None:
        first = next(outcome for outcome in report.outcomes if outcome.rank == report.first)
        raise results.failed(_child(files, first))
    if report.code == TIMED_OUT:
        late = ", ".join(str(outcome.rank) for outcome in report.outcomes if outcome.stopped)
        raise errors.DeadlineExceededError(
            f"launch: the timeout of {timeout:g} s is over, and rank {late} had not ended"
        )
    if report.code != 0:
        raise errors.CancelledError(
            f"launch: ended from outside, {peer_process.describe(128 - report.code)}"
        )
    return report.outcomes


def _child(files: Channel, outcome: Outcome) -> Child:
    record = channel.read(files.results[outcome.rank])
    notes = [*summary.saw(outcome), *(f"  | {line}" for line in outcome.last_lines)]
    return Child(outcome.rank, outcome.host, outcome.pid, outcome.code, record, notes)
