"""Sessions and Estimators that continue while peers come and go."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.context import trained_variables
from kungfu_tf.context.meets import Meets
from kungfu_tf.membership import notice
from kungfu_tf.membership.size_plan import SizePlan
from kungfu_tf.replicas import broadcast, gates
from kungfu_tf.replicas.graph_average import assigned_means
from kungfu_tf.upstream.hook import Hook

v1 = tf.compat.v1


class ElasticHook(Hook):
    """Lets peers join and leave between two steps of a session, and ends it after some step.

    For `tf.compat.v1.train.MonitoredTrainingSession`, and for Estimators (TF ≤ 2.15), in a job of
    `kungfu-run -w`. Newcomers build their graph and session while the others train. They get all
    global variables from rank 0, including the global step. If each peer trains a model of its own
    (`SynchronousAveragingOptimizer`), all continue from the average of the previous models. Peers
    that leave end their session as if their data had ended; then `kungfu_tf.detached()` is True. It
    also follows requests from elsewhere: the last one counts.

    If rank 0 leaves, the next one saves a checkpoint at once and takes over its files. So give all
    peers the same hooks and the same `checkpoint_dir`, which all must be able to reach. Checkpoints
    there count as those of this training, of which the oldest are removed.

    If peers do not meet in each step (`PairAveragingOptimizer`), each changes over between two of
    its own steps, and waits there for the slowest one. All continue at rank 0's step, even a peer
    that is waiting for the others at `max_step`. Nothing else may end the training of one peer.

    With other optimizers it costs one small exchange in each step. The program itself must handle
    the data, as nobody knows which samples a newcomer has read. Let each peer draw its own
    endlessly: shuffled by `seed=kungfu_tf.uid()`, and repeated.

    With `kungfu-run -on-failure survive` SIGTERM ends no step, in the main thread and unless the
    program handles it itself. The peer that got it leaves before its next step, and the others
    continue. If all peers have to end, they do so before the same step, as if their data had ended:
    rank 0 saves a checkpoint if it has a `checkpoint_dir`. Then the signal ends the process.

    In a job that does not change its size it does nothing else, but for the end of the training.

    Args:
        schedule: "1:100,4:200": 1 peer for 100 global steps, then 4 from there on. With None it
            makes no requests itself.
        max_step: The global step after which the training ends.

    Raises:
        ValueError: If the schedule cannot be parsed (it says where, and why), or `max_step` is not
            positive.
        FailedPreconditionError: In a run on rank 0, if there cannot be that many peers.

    Example:

    ```python
    hooks = [kf.hooks.ElasticHook("1:100,4:200", 1000)]
    with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(train_op)
    ```
    """

    changes_peers = True

    def __init__(self, schedule: str | None, max_step: int) -> None:
        super().__init__()
        if max_step < 1:
            raise ValueError(f"ElasticHook: max_step is a positive integer, not {max_step!r}")
        self._plan = None if schedule is None else SizePlan(schedule)
        self._max_step = max_step
        self._step = 0
        self._is_trained = False
        self._heeding = contextlib.ExitStack()
        self._notice: notice.Notice | None = None

    def begin(self) -> None:
        """Adds operations to the graph, which is complete except for the hooks."""
        algorithms = trained_variables.algorithms_of(v1.get_default_graph())
        self._meets = not algorithms or any(a.meets is not Meets.NEVER for a in algorithms)
        if self._plan is not None:
            self._plan.begin()
        self._global_step = v1.train.get_or_create_global_step()
        self._means = assigned_means()
        self._broadcast = broadcast.values_from_root(v1.global_variables(), root=0)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Continues at the step of a restored session."""
        del coord
        self._step = int(session.run(self._global_step))
        self._heed()

    def before_run(self, run_context: Any) -> None:
        """Changes over: all peers before the same step, or each before one of its own."""
        self._is_trained = gates.is_step(run_context)
        if not self._is_trained:
            return
        if self._may_change():
            if self._plan is not None:
                self._plan.ask(self._step)
            if self._is_time():
                self._change_over(run_context.session)
        if self._notice is not None and self._notice.before_step(self._step + 1) is not None:
            _leave(run_context.session)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends the training at the last step."""
        del run_values
        # If the run fetched it, it might be read before it is incremented.
        self._step = int(run_context.session.run(self._global_step))
        while self._is_trained and self._step >= self._max_step:
            if self._meets or not self._may_change() or not _some_continue(False):
                run_context.request_stop()
                return
            self._change_over(run_context.session)

    def close(self) -> None:
        """From now on SIGTERM ends the process, also one that came while this peer stayed."""
        self._notice = None
        self._heeding.close()

    @staticmethod
    def _may_change() -> bool:
        return peer.launched() and peer.elastic()

    def _is_time(self) -> bool:
        """Whether all peers change over now, or meet to find out whether they do."""
        if peer.joining():
            return True
        if not self._meets:
            return peer.outdated() and _some_continue(True)
        return self._means is None or bool(peer.all_reduce_int_max(peer.outdated()))

    def _change_over(self, session: Any) -> None:
        if self._means is not None and not peer.joining():
            session.run(self._means)  # while the peers that leave are still there
        if not peer.resize():
            return
        if peer.detached():
            _leave(session)
        session.run(self._broadcast)
        self._step = int(session.run(self._global_step))
        self._heed()

    def _heed(self) -> None:
        """From now on SIGTERM ends no step, if the others can go on without this peer."""
        if self._notice is None and peer.launched():
            self._notice = self._heeding.enter_context(notice.heeded())


def _leave(session: Any) -> None:
    """Ends the session here, as if the data had ended."""
    session._kungfu_ended = True
    raise tf.errors.OutOfRangeError(None, None, "this peer has left the training")


def _some_continue(mine: bool) -> bool:
    """Whether some peer continues. A peer comes here at its end, or when there are new peers."""
    return bool(peer.all_reduce_int_max(mine))
