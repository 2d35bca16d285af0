"""Sends all data along the links with the lowest latency."""

from __future__ import annotations

from tensorflow.python.eager import context

from kungfu_tf import ops, peer
from kungfu_tf.policy.base import BasePolicy
from kungfu_tf.policy.training import Training


class LatencyTreePolicy(BasePolicy):
    """Measures the latencies between all peers, and sends all data along the best tree.

    This pays off where some links are far slower than others and tensors are small: all of them
    pass through the one root of the tree. It is the minimum spanning tree (Prim, 1957).

    Args:
        interval: How often it measures again, in steps; None: never. It always measures before
            training, and after the first step with changed peers, which have no tree yet.

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
        self._peers: int | None = None  # the version of the membership that uses it

    def before_train(self, training: Training) -> None:
        """Sets the first tree."""
        self._peers = None
        self._set_best(training)

    def after_step(self, training: Training) -> None:
        """Measures again when it is time, and sets the tree if it has changed."""
        is_due = self.interval is not None and training.has_made(self.interval)
        if is_due or self._peers != peer.agreed_version():
            self._set_best(training)

    def _set_best(self, training: Training) -> None:
        with context.eager_mode():  # also within a session's hook
            edges = ops.global_minimum_spanning_tree(ops.get_peer_latencies())
            tree = ops.parents(edges).numpy().tolist()
        peers = peer.agreed_version()
        if (tree, peers) != (self._tree, self._peers):
            training.set_tree(tree)
        self._tree, self._peers = tree, peers
