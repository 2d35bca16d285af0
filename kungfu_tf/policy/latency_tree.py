"""All data take the shortest ways between the peers."""

from __future__ import annotations

from tensorflow.python.eager import context

from kungfu_tf import ops
from kungfu_tf.policy.base import BasePolicy
from kungfu_tf.policy.training import Training


class LatencyTreePolicy(BasePolicy):
    """Measures the latencies between all peers, and sends all data along the tree that has least.

    It pays where some links are far slower than others, and tensors are small: a tree has one root,
    which all of them pass. The tree is the minimum spanning tree (Prim, 1957).

    Args:
        interval: After how many steps it looks again, the first time before training; None: never.

    Raises:
        ValueError: If `interval` is not positive.

    Example:

    ```python
    policy = kf.policy.LatencyTreePolicy(interval=1000)
    model.fit(dataset, callbacks=[kf.callbacks.PolicyCallback([policy])])
    ```
    """

    def __init__(self, *, interval: int | None = None) -> None:
        if interval is not None and interval < 1:
            raise ValueError(f"LatencyTreePolicy: interval is a number of steps, not {interval!r}")
        self.interval = interval
        self._tree: list[int] = []

    def before_train(self, training: Training) -> None:
        """Sets the first tree."""
        self._look(training)

    def after_step(self, training: Training) -> None:
        """Sets another if there is a better one, if it is time."""
        if self.interval and training.has_made(self.interval):
            self._look(training)

    def _look(self, training: Training) -> None:
        with context.eager_mode():  # also within a session's hook
            edges = ops.global_minimum_spanning_tree(ops.get_peer_latencies())
            tree = ops.fathers(edges).numpy().tolist()
        if tree != self._tree:
            training.set_tree(tree)
        self._tree = tree
