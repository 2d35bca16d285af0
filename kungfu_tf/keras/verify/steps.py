"""The first steps of a `fit`, each verified before it is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kungfu_tf import peer
from kungfu_tf.keras.verify.trial import Trials
from kungfu_tf.replicas import first_batch, first_step
from kungfu_tf.replicas.inference import check_predictions
from kungfu_tf.upstream import generations
from kungfu_tf.verification import batches, unverified
from kungfu_tf.verification.account import Account
from kungfu_tf.verification.quiet import quiet
from kungfu_tf.verification.step import verify


class Verification:
    """Of one `fit`.

    Args:
        model: What is trained, with equal variables on all peers.
        counting: Within what it returns for a model, means count a batch by its samples.
    """

    def __init__(self, model: Any, counting: Callable[[Any], Any]) -> None:
        self._model = model
        self._counting = counting
        self._account = Account(f"'{model.name}'")
        self._batch: Any = None

    def before_step(self, iterator: Any) -> Any:
        """Verifies the step that is about to be taken, and arranges that the next one is, too.

        Args:
            iterator: Of its batches.

        Returns:
            An iterator as if nobody had looked.

        Raises:
            VerificationError: On every peer, if it is not the step of a single process.
        """
        if self._account.has_ended or peer.size() == 1:
            return iterator
        algorithms = generations.algorithms_of_model(self._model)
        for why_not in filter(None, map(unverified.why_not, algorithms)):
            self._account.cannot(why_not)
            return iterator
        steps = generations.steps_per_execution(self._model)
        self._batch, iterator = first_batch.look_at(iterator, steps)
        self._verify()
        if not self._account.has_ended:
            first_step.around(self._model, self._next)
        return iterator

    def end(self) -> None:
        """Says what was verified, once: after the last step that is, or the last of the `fit`."""
        if not self._account.tried:
            return
        if not self._account.has_ended and self._account.done:
            when = f"after {self._account.tried} steps"
            if check_predictions(self._model, self._batch, when):
                self._account.notes.append("all models predict the same")
        self._account.end()

    def _next(self, train_function: Any, iterator: Any) -> Any:
        if self._account.is_enough:
            self.end()
            return train_function(iterator)
        return train_function(self.before_step(iterator))

    def _verify(self) -> None:
        joint = batches.gather(self._batch)
        trials = Trials(self._model, self._batch, self._counting)
        with quiet(self._model._flatten_layers(), self._account.left_out):
            verify(self._account, joint, trials)
        self._account.tried += 1
