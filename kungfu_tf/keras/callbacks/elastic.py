"""Asks for a number of peers by the step of a training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kungfu_tf import context, errors, peer
from kungfu_tf.membership.size_plan import SizePlan, warn_that_peers_stay
from kungfu_tf.upstream.callback import Callback as Base


class ElasticCallback(Base):
    """Asks for other numbers of peers while `kungfu_tf.elastic.fit` trains.

    Newcomers start and get ready while the others train, so the peers change some steps later.
    Others may ask for a number of peers, too. The last request counts.

    A training that continues an earlier run, by a `BackupAndRestore` or a `Position`, counts the
    steps of that run, too. A job that was started anew (`-auto-recover`, `-elastic-mode reload`)
    has as many peers as were asked for last. The callback asks again when the schedule comes to
    another number.

    Without `kungfu-run -w` it only warns.

    Args:
        schedule: "1:100,4:200": 1 peer for 100 steps, then 4 for 200 steps and for all later ones.
            Or a function from the number of steps that were made to the number of peers.

    Raises:
        ValueError: If the schedule cannot be understood: where, and why.
        FailedPreconditionError: From `fit`, if it is not `kungfu_tf.elastic.fit`; or if there are
            fewer slots than wanted peers.

    Example:

    ```python
    kf.elastic.fit(model, dataset, callbacks=[kf.callbacks.ElasticCallback("1:100,4:200")])
    ```
    """

    def __init__(self, schedule: str | Callable[[int], int]) -> None:
        super().__init__()
        self._plan = SizePlan(schedule)

    def on_train_begin(self, logs: Any = None) -> None:
        """Asks for the first number of peers."""
        del logs
        if peer.is_single_process() or not peer.elastic():
            warn_that_peers_stay("ElasticCallback")
            return
        self._plan.begin()
        self._look()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Asks for another number of peers if it is due."""
        del batch, logs
        if not peer.is_single_process() and peer.elastic():
            self._look()

    def _look(self) -> None:
        fit = context.current().fit
        if fit is None or fit.elastic_run is None:
            raise errors.FailedPreconditionError(
                "ElasticCallback: this fit does not follow changes of the peers. Train with "
                "kungfu_tf.elastic.fit(model, ...)"
            )
        self._plan.ask(fit.elastic_run.all_steps)
