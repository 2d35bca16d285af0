"""Sets the batch size by a schedule."""

from __future__ import annotations

from kungfu_tf.ops.schedule import Schedule
from kungfu_tf.policy.batch_size import BatchSizePolicy
from kungfu_tf.policy.training import Training


class ScheduledBatchSizePolicy(BatchSizePolicy):
    """Sets the batch size of each peer by a schedule.

    `fit` first trains on the batches that it has read ahead: within an epoch, at least 6 more steps
    have the previous size. The learning rate changes at once.

    Args:
        schedule: "32:100,64:200": 32 samples for 100 steps, then 64 from there on.
        scale_learning_rate: "linear" (for SGD), "sqrt" (for Adam and the like) or "none".

    Raises:
        ValueError: If the schedule cannot be parsed; it says where, and why.

    Example:

    ```python
    policy = kf.policy.ScheduledBatchSizePolicy("32:1000,64:1000,128:1000")
    model.fit(dataset, callbacks=[kf.callbacks.PolicyCallback([policy])])
    ```
    """

    def __init__(self, schedule: str, *, scale_learning_rate: str = "none") -> None:
        super().__init__(scale_learning_rate=scale_learning_rate)
        self._schedule = Schedule(schedule)

    def before_train(self, training: Training) -> None:
        """Sets the first size."""
        self.change(training, self._schedule.at(training.step))

    def after_step(self, training: Training) -> None:
        """Sets the size of the next step."""
        self.change(training, self._schedule.at(training.step))
