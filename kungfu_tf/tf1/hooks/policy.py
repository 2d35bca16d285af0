"""Policies in sessions and Estimators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from kungfu_tf import errors, peer, variables
from kungfu_tf.context import batch_factor, trained_variables
from kungfu_tf.policy.base import BasePolicy
from kungfu_tf.policy.policies import Policies
from kungfu_tf.policy.training import Training
from kungfu_tf.replicas import gates
from kungfu_tf.replicas.broadcast import values_from_root
from kungfu_tf.upstream.hook import Hook
from kungfu_tf.variables import GraphKeys

_TRAINED_STEPS = "trained_steps"  # a variable, so that checkpoints keep it


class PolicyHook(Hook):
    """Calls policies while a session trains, and carries out their wishes.

    The program reads its batches as large as the variable of the batch size says, which it gets by
    `kungfu_tf.variables.get_or_create_batch_size` before it makes the hook. If policies shall
    change the learning rate, the optimizer must be made with the variable
    `kungfu_tf.variables.create_global_variable(GraphKeys.LEARNING_RATE, ...)`. The hook counts in
    samples of all peers: an epoch begins and ends where their number says so, and training stops
    after the last. A session that is restored from a checkpoint continues in its epoch and at its
    step. With an `ElasticHook`, newcomers go on where the others are: their policies are called
    from the next step on.

    Args:
        policies: As for `kungfu_tf.callbacks.PolicyCallback`.
        epoch_size: How many samples an epoch has, of all peers together.
        epoch_num: How many epochs there are.
        init_batch_size: The batch of one peer, at first.
        on_error: As for `kungfu_tf.callbacks.PolicyCallback`.

    Raises:
        TypeError: If a policy is none.
        ValueError: If a number is not positive, or `on_error` something else. On every peer, when
            the session is created and when others come, if the policies are not of the same kinds
            on all of them.
        FailedPreconditionError: When the session is created, if the job may change its size and the
            peers do not meet in each step, as those of `PairAveragingOptimizer`.
        PolicyError: In a run, if a policy raises and that ends the training.

    Example:

    ```python
    policy = kf.policy.ScheduledBatchSizePolicy("32:100,64:100")
    hook = kf.hooks.PolicyHook([policy], epoch_size=60_000, epoch_num=2, init_batch_size=32)
    with tf.compat.v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
        while not session.should_stop():
            session.run(train_op)
    ```
    """

    def __init__(
        self,
        policies: Iterable[BasePolicy],
        epoch_size: int,
        epoch_num: int,
        init_batch_size: int,
        *,
        on_error: str = "stop",
    ) -> None:
        super().__init__()
        if min(epoch_size, epoch_num, init_batch_size) < 1:
            raise ValueError(
                "PolicyHook: epoch_size, epoch_num and init_batch_size are positive, not "
                f"{epoch_size}, {epoch_num} and {init_batch_size}"
            )
        self._policies = Policies(policies, on_error)
        self._epoch_size = epoch_size
        self._epoch_num = epoch_num
        self._first = init_batch_size
        self._training: Any = None
        self._is_trained = False
        self._peers: int | None = None  # the version of the membership that has trained

    def begin(self) -> None:
        algorithms = trained_variables.algorithms_of(tf.compat.v1.get_default_graph())
        apart = [type(a).__name__ for a in algorithms if not a.is_synchronous]
        if apart and peer.launched() and peer.elastic():
            raise errors.FailedPreconditionError(
                "PolicyHook: the policies of all peers agree in each step, and the peers of "
                f"{apart[0]} go over to others each after a step of its own. Take an optimizer "
                "whose peers meet in each step, or a job that does not change its size"
            )
        self._training = _SessionTraining(self._first, self.follows)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """A session that was restored continues in its epoch, and at its step."""
        del coord
        self._training.session = session
        if peer.joining():
            return
        self._peers = peer.membership_version()
        self._policies.check()
        self._look()
        self._call("before_train")
        self._call("before_epoch")

    def before_run(self, run_context: Any) -> None:
        self._is_trained = gates.is_step(run_context)
        if self._is_trained:
            self._follow()
            self._policies.call("before_step", self._training)
            self._training.begin_step()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        del run_values
        if not self._is_trained:
            return
        training = self._training
        training.end_step()
        training.step += 1
        training.trained_samples += training.batch_size * training.size
        self._call("after_step")
        while training.trained_samples >= (training.epoch + 1) * self._epoch_size:
            self._call("after_epoch")
            if training.epoch + 1 == self._epoch_num:
                training.end()
                break
            training.epoch += 1
            self._call("before_epoch")
        training.tell()
        if training.has_ended:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        del session
        if self._peers is not None and not peer.detached():
            self._call("after_train")

    def _follow(self) -> None:
        """With others, newcomers learn how far the training is."""
        before, self._peers = self._peers, peer.membership_version()
        if before == self._peers:
            return
        self._policies.check()
        self._look()
        self._policies.agree(self._training)  # on those that have failed

    def _look(self) -> None:
        """Learns where rank 0's session is."""
        training = self._training
        training.be_as_root()
        training.epoch = min(training.trained_samples // self._epoch_size, self._epoch_num - 1)

    def _call(self, method: str) -> None:
        self._policies.call(method, self._training)
        self._policies.agree(self._training)


class _SessionTraining(Training):
    """A session; made while its graph is.

    Args:
        batch_size: Of one peer, at first.
        follows: Whether others may take part in it.
    """

    def __init__(self, batch_size: int, follows: bool) -> None:
        super().__init__()
        self.session: Any = None
        self.has_ended = False
        self._first = batch_size
        self._follows = follows
        variables.get_or_create_batch_size(batch_size)
        for key in (GraphKeys.TRAINED_SAMPLES, _TRAINED_STEPS):
            variables.get_or_create_global_variable(key)
        own = [GraphKeys.BATCH_SIZE, GraphKeys.TRAINED_SAMPLES, _TRAINED_STEPS]
        known = [GraphKeys.LEARNING_RATE, GraphKeys.GRADIENT_NOISE_SCALE, "gradient_variance"]
        self._variables = {key: variables.get_global_variable(key) for key in own}
        for key in known:
            try:
                self._variables[key] = variables.get_global_variable(key)
            except KeyError:
                continue
        self._values: dict[str, Any] = {}
        self._set = {key: variables.create_setter(v) for key, v in self._variables.items()}
        factor = batch_factor.factor.get()
        self._set_factor = variables.create_setter(factor)
        # Other hooks may have looked for variables before these were made.
        self._share = values_from_root([*self._variables.values(), factor], root=0)

    def be_as_root(self) -> None:
        """Gets what rank 0's session has, which may have been restored."""
        self.session.run(self._share)
        self.know()

    def know(self) -> None:
        """Reads the session's variables."""
        self._values = self.session.run(self._variables)
        self.trained_samples = int(self._values[GraphKeys.TRAINED_SAMPLES])
        self.step = int(self._values[_TRAINED_STEPS])

    def tell(self) -> None:
        """Writes the progress, and reads the measurements."""
        self._set[GraphKeys.TRAINED_SAMPLES](self.trained_samples, session=self.session)
        self._set[_TRAINED_STEPS](self.step, session=self.session)
        self.know()

    @property
    def batch_size(self) -> int:
        return int(self._values[GraphKeys.BATCH_SIZE])

    @property
    def learning_rate(self) -> float:
        return float(self._values[self._rate()])

    def measured(self) -> dict[str, Any]:
        return self._values

    def change_batch_size(self, size: int) -> None:
        self._set[GraphKeys.BATCH_SIZE](size, session=self.session)
        self._set_factor(size / self._first, session=self.session)
        self._values[GraphKeys.BATCH_SIZE] = size

    def change_learning_rate(self, rate: float) -> None:
        self._set[self._rate()](rate, session=self.session)
        self._values[self._rate()] = rate

    def resize(self, n: int) -> None:
        if not self._follows:
            raise errors.FailedPreconditionError(
                "PolicyHook: a policy wants another number of peers, and this session does not "
                "follow. Give it a kungfu_tf.hooks.ElasticHook, too"
            )
        super().resize(n)

    def end(self) -> None:
        self.has_ended = True

    def _rate(self) -> str:
        if GraphKeys.LEARNING_RATE not in self._variables:
            raise errors.FailedPreconditionError(
                "PolicyHook: the learning rate is no variable of kungfu_tf. Make one with "
                "kungfu_tf.variables.create_global_variable(GraphKeys.LEARNING_RATE, ...)"
            )
        return GraphKeys.LEARNING_RATE
