"""Policies in sessions and Estimators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from kungfu_tf import errors, peer, variables
from kungfu_tf.context import batch_factor, trained_variables
from kungfu_tf.context.meets import Meets
from kungfu_tf.policy.base import BasePolicy
from kungfu_tf.policy.policies import Policies, count_peers
from kungfu_tf.policy.training import Training
from kungfu_tf.replicas import gates
from kungfu_tf.replicas.broadcast import values_from_root
from kungfu_tf.upstream.hook import Hook
from kungfu_tf.variables import GraphKeys

_TRAINED_STEPS = "trained_steps"  # a variable, so that checkpoints keep it


class PolicyHook(Hook):
    """Calls policies while a session trains, and does what they ask for.

    The program reads the size of its batches from a variable, which it gets by
    `kungfu_tf.variables.get_or_create_batch_size` before it makes the hook. If policies are to
    change the learning rate, make the optimizer with the variable
    `kungfu_tf.variables.create_global_variable(GraphKeys.LEARNING_RATE, ...)`. The hook counts the
    samples of all peers: their number decides where an epoch begins and ends, and training stops
    after the last epoch. A session that is restored from a checkpoint continues in its epoch and at
    its step. With an `ElasticHook`, newcomers continue where the others are: their policies are
    called from the next step on.

    Args:
        policies: As for `kungfu_tf.callbacks.PolicyCallback`.
        epoch_size: The number of samples in an epoch, of all peers together.
        epoch_num: The number of epochs.
        init_batch_size: The initial batch size of one peer.
        on_error: As for `kungfu_tf.callbacks.PolicyCallback`.

    Raises:
        TypeError: If a policy is not a policy.
        ValueError: If a number is not positive, or `on_error` is unknown. On every peer, when the
            session is created and when peers join, if the policies are not of the same classes on
            all peers.
        FailedPreconditionError: When the session is created, if the job may change its size and the
            peers do not meet in each step, as with `PairAveragingOptimizer`.
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
        self._peers: int | None = None  # the membership version of the last step

    def begin(self) -> None:
        algorithms = trained_variables.algorithms_of(tf.compat.v1.get_default_graph())
        apart = [type(a).__name__ for a in algorithms if a.meets is Meets.NEVER]
        if apart and peer.launched() and peer.elastic():
            raise errors.FailedPreconditionError(
                "PolicyHook: the policies of all peers agree in each step, and the peers of "
                f"{apart[0]} change over each after a step of its own. Use an optimizer "
                "whose peers meet in each step, or a job that does not change its size"
            )
        self._training = _SessionTraining(self._first, self.follows)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Continues in the epoch and at the step of a restored session."""
        del coord
        self._training.session = session
        if peer.joining():
            return
        self._peers = peer.agreed_version()
        self._policies.check()
        self._read_progress()
        self._call("before_train")
        self._call("before_epoch")

    def before_run(self, run_context: Any) -> None:
        self._is_trained = gates.is_step(run_context)
        if self._is_trained:
            self._meet_newcomers()
            self._policies.call("before_step", self._training)
            self._training.begin_step()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        del run_values
        if not self._is_trained:
            return
        training = self._training
        training.end_step()
        training.step += 1
        training.trained_samples += training.batch_size * count_peers()
        self._call("after_step")
        while training.trained_samples >= (training.epoch + 1) * self._epoch_size:
            self._call("after_epoch")
            if training.epoch + 1 == self._epoch_num:
                training.end()
                break
            training.epoch += 1
            self._call("before_epoch")
        training.write()
        if training.has_ended:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        del session
        if self._peers is not None and not peer.detached():
            self._call("after_train")

    def _meet_newcomers(self) -> None:
        """After a change of peers, newcomers learn how far the training is."""
        before, self._peers = self._peers, peer.agreed_version()
        if before == self._peers:
            return
        self._policies.check()
        self._read_progress()
        self._policies.agree(self._training)  # on the policies that have failed

    def _read_progress(self) -> None:
        """Continues where rank 0's session is."""
        training = self._training
        training.copy_root()
        training.epoch = min(training.trained_samples // self._epoch_size, self._epoch_num - 1)

    def _call(self, method: str) -> None:
        self._policies.call(method, self._training)
        self._policies.agree(self._training)


class _SessionTraining(Training):
    """The training of a session. It must be made while the graph is built.

    Args:
        batch_size: The initial batch size of one peer.
        follows: Whether its peers may change.
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

    def copy_root(self) -> None:
        """Takes over the variables of rank 0's session, which may have been restored."""
        self.session.run(self._share)
        self.read()

    def read(self) -> None:
        """Reads the session's variables."""
        self._values = self.session.run(self._variables)
        self.trained_samples = int(self._values[GraphKeys.TRAINED_SAMPLES])
        self.step = int(self._values[_TRAINED_STEPS])

    def write(self) -> None:
        """Writes the progress, and reads the measurements."""
        self._set[GraphKeys.TRAINED_SAMPLES](self.trained_samples, session=self.session)
        self._set[_TRAINED_STEPS](self.step, session=self.session)
        self.read()

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
                "PolicyHook: a policy wants another number of peers, and this session cannot "
                "change it. Give it a kungfu_tf.hooks.ElasticHook, too"
            )
        super().resize(n)

    def end(self) -> None:
        self.has_ended = True

    def _rate(self) -> str:
        if GraphKeys.LEARNING_RATE not in self._variables:
            raise errors.FailedPreconditionError(
                "PolicyHook: the learning rate is not a variable of kungfu_tf. Make one with "
                "kungfu_tf.variables.create_global_variable(GraphKeys.LEARNING_RATE, ...)"
            )
        return GraphKeys.LEARNING_RATE
