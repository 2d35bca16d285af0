"""The batch follows a schedule."""

from __future__ import annotations

from kungfu_tf.policy.batch_size import BatchSizePolicy
from kungfu_tf.policy.training import Training


class ScheduledBatchSizePolicy(BatchSizePolicy):
    """Gives the batch of each peer the size that a schedule says.

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
        self._parts = _parsed(schedule)

    def before_train(self, training: Training) -> None:
        """Gives it the first size."""
        self.change(training, self._size_at(training.step))

    def after_step(self, training: Training) -> None:
        """Gives it that of the next step."""
        self.change(training, self._size_at(training.step))

    def _size_at(self, step: int) -> int:
        for size, steps in self._parts:
            if step < steps:
                return size
            step -= steps
        return self._parts[-1][0]


def _parsed(schedule: str) -> list[tuple[int, int]]:
    """Sizes, and for how many steps each."""
    parts, place = [], 0
    for text in schedule.split(","):
        numbers = text.split(":")
        where = f"schedule {schedule!r}, at character {place + 1}, {text!r}"
        if len(numbers) != 2 or not all(n.strip().isdecimal() for n in numbers):
            raise ValueError(f"{where}: that is not size:steps, as 32:100")
        size, steps = map(int, numbers)
        if size < 1 or steps < 1:
            raise ValueError(f"{where}: sizes and steps begin with 1")
        parts.append((size, steps))
        place += len(text) + 1
    return parts
