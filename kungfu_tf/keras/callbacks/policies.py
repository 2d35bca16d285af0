"""Policies in Keras' `fit`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kungfu_tf import context, errors, peer
from kungfu_tf.context.meets import Meets
from kungfu_tf.context.running_fit import RunningFit
from kungfu_tf.policy.base import BasePolicy
from kungfu_tf.policy.policies import Policies, newest_of_all
from kungfu_tf.policy.training import Training
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.callback import Callback


class PolicyCallback(Callback):
    """Calls policies while `fit` trains, and carries out their wishes.

    With several peers the model's optimizer must be a synchronous one of `kungfu_tf.optimizers`.
    All peers do the same at the same step, as rank 0's policies want it. That costs one exchange of
    a few numbers in each step. `fit` reads the samples of its data one by one and makes batches of
    them itself. They must be dense, and of one shape. In `elastic.fit` no batch may be dropped
    (`drop_remainder`). How many there are is not known before: with `steps_per_execution`, Keras 2
    must be told `steps_per_epoch`, or it takes single steps.

    Steps are counted from the beginning of `fit`, and batches begin as large as is said here: a
    `BackupAndRestore` restores the learning rate only. In `elastic.fit` policies go on with the
    step and the batch size that there were when the backup was made.

    Args:
        policies: Objects of classes that derive from `kungfu_tf.policy.BasePolicy`; of the
            same kinds on every peer, in the same order.
        batch_size: How many samples a batch of one peer has at first. Default: the number in the
            data of `fit`; for generators it is needed.
        on_error: The reaction if a policy raises. "stop": `fit` ends with
            `kungfu_tf.errors.PolicyError`, which names it; on the other peers an error names the
            failed peer, and why. "continue": it is logged, and training continues without that
            policy.

    Raises:
        TypeError: If a policy is none.
        ValueError: If an argument is out of range; in `fit`, if the batch size must be said, and on
            every peer if the policies differ.
        FailedPreconditionError: In `fit`, if the peers do not train together, step by step.
        PolicyError: In `fit`, as said above.

    Example:

    ```python
    policy = kf.policy.NoiseScaleBatchSizePolicy(1024)
    model.fit(dataset, callbacks=[kf.callbacks.PolicyCallback([policy])])
    ```
    """

    def __init__(
        self,
        policies: Iterable[BasePolicy],
        *,
        batch_size: int | None = None,
        on_error: str = "stop",
    ) -> None:
        super().__init__()
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"PolicyCallback: batch_size is a positive integer, not {batch_size}")
        self.first_batch_size = batch_size or 0
        self._policies = Policies(policies, on_error)
        self._training: _FitTraining | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        del logs
        fit = context.current().fit
        if fit is None or not fit.is_shared or fit.meets is Meets.NEVER:
            raise errors.FailedPreconditionError(
                "PolicyCallback: the peers do not train this model together, step by step. Compile "
                "it with a synchronous optimizer of kungfu_tf.optimizers"
            )
        elastic_run = fit.elastic_run
        if self._training is None or elastic_run is None or elastic_run.step == 0:
            self._training = _FitTraining(fit)
        self._training.go_on(fit)
        if elastic_run is None or elastic_run.step == 0:
            self._call("before_train")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del logs
        training = self._get()
        training.epoch, training.taken = epoch, 0
        if not training.goes_on:
            self._call("before_epoch")

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        del batch, logs
        training = self._get()
        self._policies.call("before_step", training)
        training.begin_step()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """`batch` is the last of an execution, which may have several steps."""
        del logs
        training = self._get()
        training.end_step()
        training.taken = batch + 1
        training.count_steps()
        self._call("after_step")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """The logs tell the size that the epoch has ended with."""
        del epoch
        if logs is not None:
            logs["batch_size"] = self._get().batch_size
        self._call("after_epoch")

    def on_train_end(self, logs: Any = None) -> None:
        del logs
        if not peer.detached():
            self._call("after_train")
        self._training = None

    def _get(self) -> _FitTraining:
        assert self._training is not None, "fit has begun"
        return self._training

    def _call(self, method: str) -> None:
        training = self._get()
        training.look()
        self._policies.call(method, training)
        self._policies.agree(training)


class _FitTraining(Training):
    """A `fit`.

    Attributes:
        taken: How many batches of the epoch have been trained on.
    """

    def __init__(self, fit: RunningFit) -> None:
        super().__init__()
        self.go_on(fit)

    @property
    def goes_on(self) -> bool:
        """Whether the epoch has begun in an earlier call of `fit`."""
        return self._elastic_run is not None and self._elastic_run.has_begun

    def go_on(self, fit: RunningFit) -> None:
        """This call of `fit` is a part of the training, perhaps not the first."""
        self.taken = 0
        self._model = fit.model
        self._elastic_run = fit.elastic_run
        if fit.elastic_run is not None:
            self.step = fit.elastic_run.all_steps
        assert fit.data is not None and fit.data.sizes is not None, "there is a PolicyCallback"
        self._sizes = fit.data.sizes
        self._samples: Any = fit.data.samples
        self._steps: Any = fit.data.steps
        self._counted = int(self._steps.numpy())

    @property
    def batch_size(self) -> int:
        return self._sizes.newest

    @property
    def learning_rate(self) -> float:
        return float(np.asarray(self._optimizer().learning_rate))

    def set_learning_rate(self, rate: float) -> None:
        if callable(vars(self._optimizer()).get("_learning_rate")):
            raise errors.FailedPreconditionError(
                "PolicyCallback: the optimizer's learning rate is a schedule, and cannot be set"
            )
        super().set_learning_rate(rate)

    def measured(self) -> dict[str, Any]:
        algorithms = generations.algorithms_of_model(self._model)
        return {name: v.numpy() for a in algorithms for name, v in a.metrics.items()}

    def change_batch_size(self, size: int) -> None:
        self._sizes.change(size, self.taken, newest_of_all)

    def change_learning_rate(self, rate: float) -> None:
        self._optimizer().learning_rate = rate

    def resize(self, n: int) -> None:
        if self._elastic_run is None:
            raise errors.FailedPreconditionError(
                "PolicyCallback: a policy wants another number of peers, and this fit does not "
                "follow. Train with kungfu_tf.elastic.fit(model, ...)"
            )
        super().resize(n)

    def end(self) -> None:
        self._model.stop_training = True

    def count_steps(self) -> None:
        """Adds those that were made since the last call."""
        before, self._counted = self._counted, int(self._steps.numpy())
        self.last_steps = self._counted - before
        self.step += self.last_steps

    def look(self) -> None:
        """Learns how far the training is."""
        self.trained_samples = int(self._samples.numpy())

    def _optimizer(self) -> Any:
        optimizers = generations.optimizers_of(self._model)
        if len(optimizers) != 1:
            raise ValueError(f"the model has {len(optimizers) or 'no'} optimizers, not one")
        return generations.innermost(optimizers[0])
