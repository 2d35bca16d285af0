"""Optimizers of Keras 3 on TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from kungfu_tf import _keras, _weight, ops, peer
from kungfu_tf.optimizers._wrapped import Wrapped, WrappedInside


class Keras3Copies(_keras.Base):
    """How an optimizer of Keras 3 is copied, whose class is ours: Keras copies by saving.

    What `pickle` saves is, like any file, of the plain optimizer. A copy in this process is wrapped
    as its original is.
    """

    def __reduce__(self) -> Any:
        _, *arguments = super().__reduce__()
        plain: Any = type(self).__bases__[1]
        return plain._unpickle_model, *arguments

    def __copy__(self) -> Any:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: Any) -> Any:
        load, arguments = self.__reduce__()
        return type(self).kungfu_wrap(load(*arguments))


class Keras3Optimizer(Keras3Copies, Wrapped):
    """What `wrap` adds to a `keras.optimizers.Optimizer` of Keras 3."""

    kungfu_sums_rows = False

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Keras' method, which `apply_gradients` and `fit` end in, with the algorithm around it."""
        keras_apply = super().apply
        variables = (
            self._trainable_variables if trainable_variables is None else trainable_variables
        )
        grads, variables = list(grads), list(variables)
        if self.kungfu_accumulates():
            # Called for every micro step. Once per update Keras clips what has been gathered.
            self.__dict__["_kungfu_updated"] = _averaged_variables(grads, variables)
            grads = weighted(self._kungfu_largest(grads, variables), variables)
            return keras_apply(grads, trainable_variables)
        grads = self.kungfu_gradients(grads, variables)
        updated = [_keras.native(v) for v in _averaged_variables(grads, variables)]
        self._kungfu_update(grads, updated, lambda: keras_apply(grads, trainable_variables))

    def kungfu_gradients(self, grads: list[Any], variables: list[Any]) -> list[Any]:
        """The algorithm's gradients; of what are not gradients but new values, the largest."""
        if self.kungfu_is_given_exchanged():
            return grads
        grads = self._kungfu_largest(grads, variables)
        theirs = self._kungfu_exchange(
            _without_values(grads, variables),
            [_keras.native(v) for v in variables],
            self._kungfu_step(),
        )
        return _with_values(theirs, grads, variables)

    def _kungfu_step(self) -> Any:
        """The number of updates before, as TensorFlow has it; computed where gradients gather."""
        return getattr(self.iterations, "value", self.iterations)

    @contextlib.contextmanager
    def kungfu_exchanged(self) -> Iterator[None]:
        """Within it, `apply` is given gradients that `kungfu_gradients` has returned."""
        self.__dict__["_kungfu_exchanged"] = True
        try:
            yield
        finally:
            del self.__dict__["_kungfu_exchanged"]

    def kungfu_is_given_exchanged(self) -> bool:
        """Whether we are within `kungfu_exchanged`."""
        return "_kungfu_exchanged" in self.__dict__

    def kungfu_accumulates(self) -> bool:
        """Whether several steps make one update."""
        return bool(getattr(self, "gradient_accumulation_steps", None))

    def _kungfu_largest(self, grads: list[Any], variables: list[Any]) -> list[Any]:
        """Of what are new values the largest over the peers, if these are kept equal.

        Keras gathers them so, too: they are the extent of what a quantised layer has seen.
        """
        algorithm = self.kungfu_algorithm
        values = [i for i, v in enumerate(variables) if _is_overwritten(v)]
        if not values or peer.alone() or not algorithm.keeps_equal:
            return grads
        mine, name = [grads[i] for i in values], f"{algorithm.name}/values"
        largest = dict(zip(values, ops.group_all_reduce(mine, op="max", name=name), strict=True))
        return [largest.get(i, g) for i, g in enumerate(grads)]

    def _clip_gradients(self, grads: Any) -> Any:
        if self.kungfu_accumulates():
            with _weight.unweighted():
                grads = self.kungfu_gradients(list(grads), self.__dict__["_kungfu_updated"])
        return super()._clip_gradients(grads)

    def _backend_update_step(
        self, grads: Any, trainable_variables: Any, learning_rate: Any
    ) -> None:
        step = super()._backend_update_step
        if not self.kungfu_accumulates():
            return step(grads, trainable_variables, learning_rate)
        updated = [_keras.native(v) for v in trainable_variables]
        self._kungfu_update(grads, updated, lambda: step(grads, trainable_variables, learning_rate))


class Keras3WrappedInside(Keras3Copies, WrappedInside):
    """What `wrap` adds to a `keras.optimizers.LossScaleOptimizer` of Keras 3: see loss_scale.py."""


def weighted(grads: list[Any], variables: list[Any]) -> list[Any]:
    """A step's gradients, weighed by its samples before others are added."""
    mine = _weight.weighted(_without_values(grads, variables), _weight.current())
    return _with_values(mine, grads, variables)


def _is_overwritten(variable: Any) -> bool:
    """Whether the "gradient" of `variable` is its next value (a scale of a quantised layer)."""
    return bool(getattr(variable, "overwrite_with_gradient", False))


def _without_values(grads: list[Any], variables: list[Any]) -> list[Any]:
    pairs = zip(grads, variables, strict=True)
    return [None if _is_overwritten(v) else g for g, v in pairs]


def _with_values(grads: list[Any], given: list[Any], variables: list[Any]) -> list[Any]:
    """`grads`, with what `_without_values` has left out of those that were given."""
    triples = zip(grads, given, variables, strict=True)
    return [mine if _is_overwritten(v) else g for g, mine, v in triples]


def _averaged_variables(grads: list[Any], variables: list[Any]) -> list[Any]:
    pairs = zip(grads, variables, strict=True)
    return [v for g, v in pairs if g is not None and not _is_overwritten(v)]
