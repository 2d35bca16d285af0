"""The extension point for distributed methods, which work around an optimizer's update.

A method is a subclass of `Algorithm`, and a function that gives it to `wrap`. It works with all
generations of optimizers:

```python
class LocalSGD(Algorithm):
    '''Each peer updates alone. Afterwards the models are averaged.'''

    def after_update(self, variables):
        name = f"{self.name}/model"
        means = ops.group_all_reduce([v.read_value() for v in variables], op="mean", name=name)
        return [v.assign(mean) for v, mean in zip(variables, means)]


def LocalSGDOptimizer(optimizer):
    return wrap(optimizer, LocalSGD)
```
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from kungfu_tf.context import ordinals
from kungfu_tf.exchange.accumulation import Accumulation
from kungfu_tf.groups import Group


class Algorithm:
    """A distributed method. Each wrapped optimizer has one object, and calls in each update:

    1. `gradients`, before anything else uses them (finite check, clipping, weight decay),
    2. `before_update`, when all gradients are known,
    3. the update itself,
    4. `after_update`.

    In Keras 2 the optimizer calls `gradients` within the update. All methods are traced in a
    `tf.function`, and run on every peer in the same steps, so each may issue collectives. Variables
    are `tf.Variable`s, in the optimizer's order.

    In a TF1 graph `before_update` and `after_update` return the operations that change variables.
    Elsewhere their results are ignored.

    Attributes:
        keeps_equal: Whether all trainable and optimizer variables are bitwise equal on all peers
            after every update, if they were before the first. If so, `fit` checks it. If not, `fit`
            validates and saves the average of the models (`average_variables`), and ends with it.
        is_synchronous: Whether the peers meet in every step. If not, `fit` lets each peer take as
            many steps as it has batches.
        accumulation: What adds up the gradients of several steps, of which only the last calls the
            methods below; None: each step is an update. It is for Keras 2.
        group: The peers among which the methods below are called; None: all.
    """

    keeps_equal: ClassVar[bool] = False
    is_synchronous: ClassVar[bool] = True
    accumulation: Accumulation | None = None
    group: Group | None = None

    @functools.cached_property
    def ordinal(self) -> int:
        """How many algorithms of this process, or of the group, were used before this one.

        It counts at its first use, not when it is made. So a peer may wrap one more optimizer than
        others, for instance to read a file, if it never trains with it.
        """
        taken_from = ordinals.algorithms if self.group is None else self.group.algorithms
        return taken_from.take()

    @property
    def name(self) -> str:
        """The prefix of the names of this object's collectives."""
        return f"optimizer{self.ordinal}"

    @property
    def metrics(self) -> dict[str, Any]:
        """Its measurements, which `kungfu_tf.Monitor` shows: scalar variables by their names.

        A variable is NaN before the first measurement.
        """
        return {}

    @property
    def sums_rows(self) -> bool:
        """Whether the optimizer adds up sparse rows of one index before it uses them.

        If so, they may be added up before they travel. Optimizers of Keras 3 use each row by
        itself: Adam squares them one by one. With sums they would not train as in one process. The
        wrapper knows the optimizer, and sets this.
        """
        return bool(vars(self).get("_sums_rows", False))

    # Whether the gradients of several steps for an update are added up where Keras 3 averages them.
    sums_steps = False

    @property
    def variables(self) -> Sequence[Any]:
        """Its state, which is equal on all peers. Newcomers to `fit` get it from rank 0."""
        return []

    def optimizer_variables(self) -> Sequence[Any]:
        """The state of its optimizer: slots, iterations, learning rate.

        The wrapper sets this method. Slots exist after the first update.
        """
        return []

    def optimizer_step(self) -> Any:
        """The optimizer's step, an integer variable; None if it counts no steps."""
        return None

    def before_training(self) -> None:
        """Drops the state of an earlier training.

        `fit` calls it on every peer before the peers meet, so no other peer has begun yet.
        """

    def gradients(
        self, gradients: Sequence[Any], variables: Sequence[Any], *, step: Any = None
    ) -> list[Any]:
        """Returns the gradients to apply.

        Args:
            gradients: For each variable a tensor or `tf.IndexedSlices` of its shape; None if no
                peer has a gradient. If only other peers have one, it is zero. (In a TF1 graph it is
                None.)
            variables: The variables that the gradients belong to.
            step: The optimizer's step, an integer tensor or variable; None if it counts no steps.
        """
        del variables, step
        return list(gradients)

    def before_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Changes the variables before the optimizer does."""
        del variables
        return []

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Changes or publishes the variables after the optimizer's update."""
        del variables
        return []
