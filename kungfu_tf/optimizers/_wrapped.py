"""What the wrappers of all generations of optimizers have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import tensorflow as tf

from kungfu_tf.optimizers.algorithm import Algorithm

if TYPE_CHECKING:
    Base = Any  # some optimizer
else:
    Base = object


class Wrapped(Base):
    """Mixed in, before the user's class, into the class of a wrapped optimizer.

    The instance and its state are the user's. What we add lies in the instance's `__dict__`, past
    the tracking of TensorFlow and Keras: it is not saved. An optimizer that is made anew from the
    class (`from_config`) gets an algorithm of its own.
    """

    kungfu_make_algorithm: ClassVar[Callable[[], Algorithm]]

    @property
    def kungfu_algorithm(self) -> Algorithm:
        """What is done around the update."""
        state = self.__dict__
        if "_kungfu_algorithm" not in state:
            state["_kungfu_algorithm"] = type(self).kungfu_make_algorithm()
        algorithm: Algorithm = state["_kungfu_algorithm"]
        return algorithm

    def _kungfu_update(
        self, gradients: Sequence[Any], variables: Sequence[Any], update: Callable[[], Any]
    ) -> Any:
        """Returns `update()`, which applies `gradients`, with the algorithm's part around it."""
        algorithm = self.kungfu_algorithm
        if tf.compat.v1.executing_eagerly_outside_functions():
            algorithm.before_update(variables)
            result = update()
            algorithm.after_update(variables)
            return result
        # In a TF1 graph the order of the program says nothing.
        with tf.control_dependencies([_operation(g) for g in gradients if g is not None]):
            before = algorithm.before_update(variables)
        with tf.control_dependencies([_operation(b) for b in before]):
            result = update()
        with tf.control_dependencies([_operation(result)]):
            after = algorithm.after_update(variables)
        return tf.group(result, *map(_operation, after)) if after else result


def _operation(node: Any) -> Any:
    """The operation behind a tensor, IndexedSlices, or what `assign` returned.

    `tf.control_dependencies` takes a variable for its handle: it would not wait for the assignment.
    """
    return node if isinstance(node, tf.Operation) else node.op
