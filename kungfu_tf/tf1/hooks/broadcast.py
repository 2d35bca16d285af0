"""Makes the peers of a session or Estimator equal at first, and checks that they stay equal."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.context import trained_variables
from kungfu_tf.replicas import gates
from kungfu_tf.replicas.broadcast import broadcast_variables
from kungfu_tf.replicas.equality import GraphCheck
from kungfu_tf.upstream.hook import Hook


class BroadcastGlobalVariablesHook(Hook):
    """Starts all peers from rank 0's variables, and stops them if they drift apart.

    Once the session is initialised or restored, all peers get rank 0's global variables, including
    the optimizer's. After the first step, every `check_every` steps, and at the end, they compare a
    digest of the trainable variables, which `SynchronousSGDOptimizer` keeps equal.

    `tf.compat.v1.train.MonitoredTrainingSession` adds this hook itself if its graph exchanges
    gradients; pass one to set `check_every`. To an Estimator (TF ≤ 2.15) you must pass it; then the
    Estimator also makes the peers' data equally long and weights their gradients by samples. In a
    single process it does nothing.

    Args:
        root: The rank whose variables all get.
        check_every: Steps (calls of `session.run` that train) between two comparisons; None: never.

    Raises:
        ValueError: If `check_every` is less than 1.
        DivergenceError: From `session.run` on every peer, if the variables differ. It names
            variables, ranks and hosts.
        tf.errors.OpError: From `session.run` and when the session is created, as from any
            operation of `kungfu_tf.ops`.

    Example:

    ```python
    hooks = [kf.initializer.BroadcastGlobalVariablesHook()]
    with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(train_op)
    ```
    """

    def __init__(self, *, root: int = 0, check_every: int | None = 1000) -> None:
        super().__init__()
        self._root = root
        if check_every is not None and check_every < 1:
            raise ValueError(f"check_every must be at least 1 step, or None, not {check_every}")
        self._check_every = check_every or 0
        self._check: GraphCheck | None = None
        self._steps = 0
        self._membership: int | None = None  # the version in which the steps were made

    def begin(self) -> None:
        """Adds operations to the graph, which is complete except for the hooks."""
        self._steps = 0
        self._check = None
        self._broadcast = broadcast_variables(tf.compat.v1.global_variables(), root=self._root)
        differs = bool(trained_variables.differing_of(tf.compat.v1.get_default_graph()))
        if self._check_every and not differs and not peer.is_single_process():
            self._check = GraphCheck(tf.compat.v1.trainable_variables())

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Makes the variables equal."""
        del coord
        session.run(self._broadcast)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Compares after the first step and after every `check_every` steps."""
        del run_values
        if not gates.is_step(run_context):
            return
        if self._membership != peer.agreed_version():  # newcomers compare, too
            self._membership, self._steps = peer.agreed_version(), 0
        self._steps += 1
        if self._check and (self._steps - 1) % self._check_every == 0:
            self._check(run_context.session, f"after step {self._steps}")

    def end(self, session: Any) -> None:
        """Compares a last time."""
        if self._check and not peer.detached():
            self._check(session, f"at the end, after {self._steps} steps")
