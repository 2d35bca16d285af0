"""`kungfu_tf.verify`: the first steps of a loop of a program's own."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import tensorflow as tf

from kungfu_tf import config, context, peer
from kungfu_tf.replicas import randomness
from kungfu_tf.replicas.equality import check_equal
from kungfu_tf.upstream import generations
from kungfu_tf.verification import batches, comparison, unverified
from kungfu_tf.verification.account import Account
from kungfu_tf.verification.process_state import Process
from kungfu_tf.verification.quiet import layers_of_process, quiet
from kungfu_tf.verification.step import verify as verify_step
from kungfu_tf.verification.trial import Noting, Trial

Step = TypeVar("Step", bound=Callable[..., Any])


def verify(step: Step) -> Step:
    """Makes the step of a training loop one that `kungfu-run -verify` can verify.

    Without that, and in a process that is alone, it returns `step` itself. Else the first calls
    compare what all peers do with what one process does with the batches of all of them. For that
    the step's Python code is called a few times more, without `tf.function`. Afterwards variables
    and random numbers are as before, and the step itself is taken.

    Args:
        step: A function of a batch: its arguments hold tensors or arrays whose first dimension is
            that of the samples. Others, as scalars and models, are taken as they are. It updates
            the variables. It may be a `tf.function`, and must not be called in one.

    Returns:
        A function like it.

    Raises:
        VerificationError: From a call, on every peer, if the step is not that of one process.
        DivergenceError: From a call, on every peer, if variables differ after the step.

    Example:

    ```python
    @kf.verify
    @tf.function
    def train_step(images, labels):
        with kf.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = loss_of(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss
    ```
    """
    if not config.VERIFY.get() or peer.is_single_process():
        return step
    loop = _Loop(step)

    @functools.wraps(step)
    def verified(*args: Any, **kwargs: Any) -> Any:
        return loop.step(*args, **kwargs)

    return cast(Step, verified)


class _Loop:
    """Verifies the first steps for each list of peers.

    Args:
        step: The step.
    """

    def __init__(self, step: Callable[..., Any]) -> None:
        self._step = step
        self._name = f"'{getattr(step, '__name__', type(step).__name__)}'"
        self._account: Account | None = None
        self._version = -1
        unverified.at_end(self._end)

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """The step, verified before it is taken."""
        with context.within(is_verified=True):
            if context.current().is_alone or peer.joining() or peer.size() == 1:
                return self._step(*args, **kwargs)
            account = self._account_of_now()
            if account.has_ended:
                return self._step(*args, **kwargs)
            trained = self._verify(account, args, kwargs)
            result = self._step(*args, **kwargs)
            if trained:
                check_equal(trained, f"after step {account.tried} of {account.subject}")
            if account.is_enough:
                account.end()
            return result

    def _account_of_now(self) -> Account:
        """Of the peers of now."""
        if self._account is None or self._version != peer.membership_version():
            self._version = peer.membership_version()
            self._account = Account(self._name)
        return self._account

    def _verify(self, account: Account, args: Any, kwargs: Any) -> list[Any]:
        """Verifies a step; returns the variables that it trains, if it could be."""
        if not tf.executing_eagerly():
            account.cannot(
                "kungfu_tf.verify is within a tf.function. Give it the function itself, as in "
                "kungfu_tf.verify(tf.function(step))"
            )
            return []
        joint = batches.gather((args, kwargs))
        trials = _Trials(self._step, args, kwargs)
        with quiet(trials.layers, account.left_out):
            ours = verify_step(account, joint, trials)
        account.tried += 1
        return [] if ours is None else trials.trained

    def _end(self) -> None:
        if self._account is not None and self._account.tried:
            self._account.end()


class _Trials:
    """Tries a step, eagerly.

    Args:
        step: The step.
        args: Its arguments on this peer.
        kwargs: Those with names.

    Attributes:
        layers: Of Keras, all that are alive.
        trained: The variables of which the peers have exchanged gradients.
    """

    def __init__(self, step: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.layers = layers_of_process()
        self.trained: list[Any] = []
        self._step = step
        self._batch = args, kwargs
        self._process = Process()

    def alone(
        self, batch: Any, replacements: Sequence[Any] | None = None, *, is_redrawn: bool = False
    ) -> Trial:
        """As `verification.step.Trials`."""
        with context.within(is_private=True, is_alone=True, counts_peers=replacements is not None):
            return self._tried(batch, Noting(replacements), is_redrawn=is_redrawn)

    def together(self, samples: Sequence[int]) -> Trial:
        """As `verification.step.Trials`."""
        del samples
        noting = Noting()
        # Moving statistics are each peer's own.
        self._process.from_root(v for _, v in generations.moved_variables_in(self.layers))
        trial = self._tried(self._batch, noting)
        self.trained = noting.trained
        check_equal(self.trained, "before the step")
        return trial

    def digits(self, trial: Trial) -> Any:
        """As `verification.step.Trials`."""
        return comparison.digits(self.layers, trial.given)

    def key_of(self, label: str) -> Any:
        """As `verification.step.Trials`."""
        return self._process.key_of(label)

    def label_of(self, key: Any) -> str:
        """As `verification.step.Trials`: only what is not trained may be each peer's own."""
        is_trained = key in {id(v) for v in self.trained}
        return "" if is_trained else self._process.label_of(key)

    def _tried(self, batch: Any, noting: Noting, *, is_redrawn: bool = False) -> Trial:
        args, kwargs = batch
        draws = randomness.redrawn(self.layers) if is_redrawn else contextlib.nullcontext()
        try:
            noted = context.within(note_gradients=noting)
            with self._process.trying(), draws, _eagerly(), noted:
                result = self._step(*args, **kwargs)
            noting.trial.variables = self._process.moved()
        finally:
            self._process.put_back()
        noting.trial.results = _numbers_in(result)
        return noting.trial


@contextlib.contextmanager
def _eagerly() -> Iterator[None]:
    """Within it functions of TensorFlow are what they were made of: no trace is kept."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(run_eagerly=True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def _numbers_in(result: Any) -> list[Any]:
    """The floating scalars."""
    leaves = (leaf for leaf in tf.nest.flatten(result) if tf.is_tensor(leaf))
    return [np.asarray(leaf) for leaf in leaves if leaf.dtype.is_floating and not leaf.shape.rank]
