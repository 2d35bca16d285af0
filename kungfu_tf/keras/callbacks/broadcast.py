"""Makes the peers equal before the first step of `fit`, and checks that they stay so."""

from __future__ import annotations

from typing import Any

from kungfu_tf import peer
from kungfu_tf.replicas import first_step
from kungfu_tf.replicas.equality import check_equal
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.callback import Callback


class BroadcastGlobalVariablesCallback(Callback):
    """Starts all peers from one peer's model, and stops them if they drift apart.

    Before the first step of `fit` all peers get the root's weights and optimizer state, slots
    included. A model that has no variables yet is built first, from the shape of its first batch.
    Seed generators are not made equal: each peer derives its own from its seed and its rank. So
    dropout differs between peers and repeats from run to run.

    After the first step and at every epoch's end the peers compare a digest of what
    `SynchronousSGDOptimizer` keeps equal: trainable weights and optimizer state. Of other
    optimizers they compare what all peers have in common, such as the anchor of `DiLoCoOptimizer`.
    Moving statistics (as BatchNormalization has) are each peer's own within an epoch, and averaged
    at its end.

    A `fit` with a wrapped optimizer adds this callback itself. Give one to set how often the peers
    compare, or if a train step of the model's own averages the gradients.

    Works on Keras 3, Keras 2 and tf-keras. In a process that is alone it does nothing.

    Args:
        root: The rank whose model all peers get.
        check_every: After how many epochs the peers compare. None: never, not even around the first
            step. That is for models that compute something else on each peer by design.
        repairs_rounding: Whether all peers get rank 0's values if a comparison finds differences as
            small as those of rounding. It is for train steps that change weights and change them
            back, such as sharpness-aware ones.

    Raises:
        ValueError: If `check_every` is less than 1.
        DivergenceError: On every peer, from `fit`, if they differ. It names variables, ranks and
            hosts.
        tf.errors.OpError: From `fit`, as any operation of `kungfu_tf.ops`: models of different
            shapes (InvalidArgumentError), a peer that is gone (UnavailableError) or that calls
            `fit` otherwise (DeadlineExceededError).

    Example:

    ```python
    model.fit(dataset, callbacks=[kf.callbacks.BroadcastGlobalVariablesCallback()])
    ```
    """

    def __init__(
        self, *, root: int = 0, check_every: int | None = 1, repairs_rounding: bool = False
    ) -> None:
        super().__init__()
        if check_every is not None and check_every < 1:
            raise ValueError(f"check_every must be at least 1 epoch, or None, not {check_every}")
        self.root = root
        self.check_every = check_every
        self.repairs_rounding = repairs_rounding
        self.checks_first_step = True
        self._is_checked = False

    def on_train_begin(self, logs: Any = None) -> None:
        """Prepares the first step, where the shape of a batch is known."""
        del logs
        if peer.is_single_process():
            return
        model = self.model
        algorithms = generations.algorithms_of_model(model)
        # A train step of the user's own may average by a tape, or by its own code. The check finds
        # out.
        is_custom = not algorithms and generations.has_own_train_step(model)
        self._is_checked = is_custom or any(a.keeps_equal or a.variables for a in algorithms)
        if not algorithms and not is_custom and peer.rank() == 0:
            first_step.warn_not_distributed(model)

        def first(train_function: Any, iterator: Any) -> Any:
            compares = self.check_every is not None
            iterator = first_step.begin(model, iterator, root=self.root, compares=compares)
            logs = train_function(iterator)
            if self.checks_first_step:
                self._check("after the first step")
            return logs

        first_step.around(model, first)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Compares the peers' variables."""
        del logs
        if (
            self.check_every
            and (epoch + 1) % self.check_every == 0
            and not peer.is_single_process()
        ):
            self._check(f"at the end of epoch {epoch + 1}")

    def _check(self, when: str) -> None:
        if self.check_every and self._is_checked:
            variables = first_step.equal_variables(self.model)
            check_equal(variables, when, repairs_rounding=self.repairs_rounding)
