"""Sets the number of peers by a schedule."""

from __future__ import annotations

from kungfu_tf import peer
from kungfu_tf.membership.size_plan import SizePlan, warn_that_peers_stay
from kungfu_tf.policy.base import BasePolicy
from kungfu_tf.policy.training import Training


class ScheduledClusterSizePolicy(BasePolicy):
    """Sets the number of peers by a schedule.

    New peers join some steps later, when they are ready: see `kungfu_tf.elastic.fit`. If the job is
    not elastic, it only warns.

    Args:
        schedule: "1:100,4:200": 1 peer for 100 steps, then 4 from there on.

    Raises:
        ValueError: If the schedule cannot be parsed; it says where, and why.

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
        self._ask_if_due(training)

    def after_step(self, training: Training) -> None:
        """Asks for the next size when it is due."""
        self._ask_if_due(training)

    def _ask_if_due(self, training: Training) -> None:
        if peer.elastic() and (size := self._plan.due(training.step)) is not None:
            training.resize(size)
