"""The logs of a step in versions of Keras whose callbacks can add to them.

Keras 3 before 3.6 gives its own logs to callbacks, which may add a number that is no metric. At the
epoch's end Keras takes such logs for those of a train step of the program's own.
"""

from __future__ import annotations

from typing import Any

from kungfu_tf.upstream import generations
from kungfu_tf.upstream.callback import Callback

_HANDS_OUT_A_COPY = (3, 6)


class StepLogs(Callback):
    """The first callback: notes the names in the logs before others add to them.

    Attributes:
        names: The names in the logs of the last step; None before the first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: tuple[str, ...] | None = None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del batch
        self.names = tuple(logs or ())

    def without_additions(self, logs: Any) -> Any:
        """The logs of the last step, without what callbacks have added."""
        if not isinstance(logs, dict) or self.names is None:
            return logs
        return {name: logs[name] for name in self.names if name in logs}


def are_shared_with_callbacks(model: Any) -> bool:
    """Whether callbacks get the logs of `model` themselves and not a copy."""
    package = generations.package_of(model)
    return package.generation == 3 and package.version < _HANDS_OUT_A_COPY
