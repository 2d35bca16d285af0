"""The batch follows a schedule."""

from __future__ import annotations

from kungfu_tf.ops.schedule import Schedule
from kungfu_tf.policy.batch_size import BatchSizePolicy
from kungfu_tf.policy.training import Training


class ScheduledBatchSizePolicy(BatchSizePolicy):
    """Gives the batch of each peer the size that a schedule says.

    In `fit` batches that were read ahead are trained on first. So within an epoch at least 6 more
    steps have batches of the previous size. The learning rate changes at once.

    Args:
        schedule: "32:100,64:200": 32 samples for 100 steps, then 64 for 200, and from then on.
        scale_learning_rate: "linear" (for SGD), "sqrt" (for Adam and its like) or "none".

    Raises:
        ValueError: If the schedule cannot be understood: where, and why.

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
        """Gives it the first size."""
        self.change(training, self._schedule.at(training.step))

    def after_step(self, training: Training) -> None:
        """Gives it that of the next step."""
        self.change(training, self._schedule.at(training.step))
