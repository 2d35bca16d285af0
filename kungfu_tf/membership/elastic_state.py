"""The state of a training loop of the program's own, in which peers come and go."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from tensorflow.python.eager import context as eager

from kungfu_tf import ops, peer
from kungfu_tf.membership import notice


class ElasticState:
    """The progress of a training, which is the same on all peers.

    With `kungfu-run -on-failure survive` SIGTERM ends no step, from the first one on, in the main
    thread and unless the program handles it itself. The peer that got it leaves after its step, and
    is detached then; the others continue from the same progress. If all peers have to end, the end
    of the same step raises SystemExit with code 143 on all: catch it to write a checkpoint.

    Args:
        max_progress: The progress at which the training ends; None: it does not end by itself.
        progress: The progress at which it begins: that of a checkpoint, or
            `kungfu_tf.init_progress()` if all peers start anew when their number changes.

    Attributes:
        progress: The progress so far, in any unit, such as steps or samples.
        max_progress: As given.

    Raises:
        ValueError: If a number is negative.

    Example:

    ```python
    state = kf.elastic.ElasticState(max_progress=10_000)
    while not state.stopped():
        with kf.elastic.ElasticContext(state) as should_sync:
            if should_sync:
                kf.initializer.broadcast_variables(variables)
            train_step(next(batches))
    ```
    """

    def __init__(self, max_progress: int | None, *, progress: int = 0) -> None:
        if progress < 0 or (max_progress is not None and max_progress < 0):
            raise ValueError(f"progress is not negative, as {progress} or {max_progress}")
        self.progress = progress
        self.max_progress = max_progress
        self._membership: int | None = None  # its version, in which all know the progress
        self._stop_reason: str | None = None
        self._heeding = contextlib.ExitStack()
        self._notice: notice.Notice | None = None
        self._look()

    def begin(self) -> bool:
        """Begins a step. A newcomer waits here until it is taken in.

        Returns:
            Whether this is the first step, or the peers have changed since the last one. Then all
            peers get rank 0's progress, and the program must give them rank 0's variables. If a
            peer was lost in a step, this is so in one of the next two, on all peers in the same.

        Raises:
            tf.errors.OpError: As any operation of `kungfu_tf.ops`.
        """
        if peer.launched() and peer.joining():
            peer.resize()
        if self._membership == peer.agreed_version() or peer.detached():
            return False
        self._membership = peer.agreed_version()
        if not peer.is_single_process():
            with eager.eager_mode():
                mine = np.array(self.progress, np.int64)
                self.progress = int(np.asarray(ops.broadcast(mine, name="elastic/progress")))
        if self._notice is None and peer.launched():
            self._notice = self._heeding.enter_context(notice.heeded())
            if self._notice is not None:
                self._notice.count_from(self.progress)
        return True

    def end(self, progress: int = 1) -> None:
        """Ends a step. All peers change over if the list of peers is to change.

        If the program has changed over itself in this step, newcomers wait for the next one.

        Args:
            progress: The progress that the step made.

        Raises:
            KungfuError: As from `kungfu_tf.resize`.
            SystemExit: All peers have to end, because of SIGTERM.
        """
        self.progress += progress
        self._look()
        if not self.stopped() and peer.launched() and self._membership == peer.agreed_version():
            peer.resize(progress=self.progress)
            self._look()
        if not self.stopped() and self._notice is not None:
            if code := self._notice.before_step(self.progress):
                raise notice.LeftOnNotice(code)
            self._look()

    def stopped(self) -> bool:
        """Whether the training has ended, for this peer."""
        return self._stop_reason is not None

    def stop_reason(self) -> str | None:
        """Returns "finished"; "detached" if this peer has left the others; None if it goes on."""
        return self._stop_reason

    def _look(self) -> None:
        if peer.launched() and peer.detached():
            self._stop_reason = "detached"
        elif self.max_progress is not None and self.progress >= self.max_progress:
            self._stop_reason = "finished"
        if self.stopped():
            self._heeding.close()


class ElasticContext:
    """One step of a training, as a context. Its value is whether to synchronize: see `begin`.

    An error within it leaves the state as it is.

    Args:
        state: The state of the training.
        progress: The progress that the step makes.

    Example:

    ```python
    with kf.elastic.ElasticContext(state) as should_sync:
        if should_sync:
            kf.initializer.broadcast_variables(variables)
        train_step(next(batches))
    ```
    """

    def __init__(self, state: ElasticState, *, progress: int = 1) -> None:
        self._state = state
        self._progress = progress

    def __enter__(self) -> bool:
        return self._state.begin()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None:
            self._state.end(self._progress)
