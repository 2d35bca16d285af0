"""The number of peers follows a schedule."""

from __future__ import annotations

from kungfu_tf import peer
from kungfu_tf.membership.size_plan import SizePlan, warn_that_peers_stay
from kungfu_tf.policy.base import BasePolicy
from kungfu_tf.policy.training import Training


class ScheduledClusterSizePolicy(BasePolicy):
    """Asks for as many peers as a schedule says.

    They come some steps later, when they are ready: see `kungfu_tf.elastic.fit`. In a job whose
    peers do not change it warns, and asks for none.

    Args:
        schedule: "1:100,4:200": 1 peer for 100 steps, then 4 for 200, and from then on.

    Raises:
        ValueError: If the schedule cannot be understood: where, and why.

    Example:

    ```python
    policy = kf.policy.ScheduledClusterSizePolicy("1:1000,4:1000")
    kf.elastic.fit(model, dataset, callbacks=[kf.callbacks.PolicyCallback([policy])])
    ```
    """

    def __init__(self, schedule: str) -> None:
        self._plan = SizePlan(schedule)

    def before_train(self, training: Training) -> None:
        """Asks for the first size."""
        if not peer.elastic():
            warn_that_peers_stay("ScheduledClusterSizePolicy")
        self._plan.begin()
        self._look(training)

    def after_step(self, training: Training) -> None:
        """Asks for another one if it is due."""
        self._look(training)

    def _look(self, training: Training) -> None:
        if peer.elastic() and (size := self._plan.due(training.step)) is not None:
            training.resize(size)
