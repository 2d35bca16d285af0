"""The first steps of a `fit`, each verified before it is taken."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import config, errors, ops, peer
from kungfu_tf.keras.verify import batches, trial
from kungfu_tf.keras.verify.comparison import difference
from kungfu_tf.keras.verify.quiet import quiet
from kungfu_tf.ops.any_tensors import gather_any
from kungfu_tf.replicas import first_batch, first_step
from kungfu_tf.upstream import generations


class Verification:
    """Of one `fit`.

    Args:
        model: What is trained, with equal variables on all peers.
        counting: Within what it returns for a model, means count a batch by its samples.
    """

    def __init__(self, model: Any, counting: Callable[[Any], Any]) -> None:
        self._model = model
        self._counting = counting
        self._wanted = config.VERIFY.get()
        self._tried = self._done = 0
        self._has_ended = not self._wanted or peer.is_single_process()
        self._left_out: list[str] = []

    def before_step(self, iterator: Any) -> Any:
        """Verifies the step that is about to be taken, and arranges that the next one is, too.

        Args:
            iterator: Of its batches.

        Returns:
            An iterator as if nobody had looked.

        Raises:
            VerificationError: On every peer, if it is not the step of a single process.
        """
        if self._has_ended:
            return iterator
        algorithms = generations.algorithms_of_model(self._model)
        if not all(a.is_synchronous and a.keeps_equal for a in algorithms):
            self._has_ended = True
            self._say("nothing is verified: each peer trains a model of its own, by design")
            return iterator
        steps = generations.steps_per_execution(self._model)
        batch, iterator = first_batch.look_at(iterator, steps)
        self._verify(batch)
        self._tried += 1
        if self._tried == self._wanted:
            self.end()
        else:
            first_step.around(self._model, self._next)
        return iterator

    def end(self) -> None:
        """Says what was verified, once: after the last step that is, or the last of the `fit`."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._done == 0:
            self._say("nothing is verified: no step had a batch of tensors on each peer")
            return
        steps = f"{self._done} step" + ("s" if self._done > 1 else "")
        self._say(
            f"verified: {steps} of '{self._model.name}' on {peer.size()} peers are those of a "
            f"single process with their samples{self._without()}"
        )

    def _next(self, train_function: Any, iterator: Any) -> Any:
        return train_function(self.before_step(iterator))

    def _verify(self, batch: Any) -> None:
        joint = batches.gather(batch)
        if joint.twins is not None:
            first, second = joint.twins
            self._fail(
                f"ranks {first} and {second} train on the same samples: give each peer its part, "
                "by kungfu_tf.data.shard(dataset)"
            )
        if not all(joint.samples) or not _can_all(joint.batch is not None or not peer.is_root()):
            return
        with quiet(self._model) as self._left_out:
            one = self._of_one_process(joint.batch) if peer.is_root() else None
            with self._counting(self._model):
                ours = trial.together(self._model, batch, joint.samples, peer.rank())
        found = None
        if one is not None:
            found = difference(one, ours, _dtype(self._model))
        self._fail_if_any(found)
        self._done += 1

    def _of_one_process(self, batch: Any) -> trial.Trial:
        one = trial.alone(self._model, batch)
        if self._tried:
            return one
        again = trial.alone(self._model, batch)
        if difference(one, again, _dtype(self._model)) is not None:
            raise errors.VerificationError(
                f"'{self._model.name}' cannot be verified: the same step of one process gives "
                "another result each time. It draws random numbers outside of Keras' layers"
            )
        return one

    def _fail_if_any(self, found: str | None) -> None:
        [told, *_] = gather_any([found or ""], name="verify/found")
        if text := told[0].item().decode():
            self._fail(text)

    def _fail(self, text: str) -> None:
        raise errors.VerificationError(
            f"step {self._tried + 1} of '{self._model.name}' on {peer.size()} peers is not that of "
            f"a single process with their samples: {text}{self._without()}"
        )

    def _without(self) -> str:
        return f" (compared without {', '.join(self._left_out)})" if self._left_out else ""

    def _say(self, text: str) -> None:
        if peer.is_root():
            print(f"kungfu_tf: -verify: {text}", file=sys.stderr, flush=True)


def _can_all(can: bool) -> bool:
    """Whether all peers can go on."""
    return bool(ops.all_reduce(np.int32(can), op="min", name="verify/can"))


def _dtype(model: Any) -> Any:
    """That of the fewest digits in which a layer computes."""
    names = {getattr(layer, "compute_dtype", None) for layer in model._flatten_layers()}
    dtypes = [tf.as_dtype(name) for name in names if name]
    floating = [dtype for dtype in dtypes if dtype.is_floating] or [tf.float32]
    return min(floating, key=lambda dtype: (dtype.size, dtype.name)).as_numpy_dtype
