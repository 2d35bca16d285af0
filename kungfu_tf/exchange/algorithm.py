"""The extension point: what a distributed method does around an optimizer's update.

A method is one subclass of `Algorithm`, and one function that hands it to `wrap`. The wrappers know
the generations of optimizers; an algorithm knows none of them:

```python
class LocalSGD(Algorithm):
    '''Everybody updates alone; afterwards the models are averaged.'''

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


class Algorithm:
    """One object per wrapped optimizer. For each update its optimizer calls, in this order:

    1. `gradients`, before anything else looks at them (finite check, clipping, weight decay),
    2. `before_update`, when all gradients are known,
    3. the update itself,
    4. `after_update`.

    Where the optimizer itself exchanges gradients, as in Keras 2, `gradients` comes with the
    update. All are traced in a `tf.function` and run on every peer in the same steps, so each may
    issue collectives. Variables are `tf.Variable`s, in the optimizer's order.

    In a TF1 graph the two methods that touch variables return the operations that do it. Elsewhere
    their results are ignored.

    Attributes:
        keeps_equal: Whether all trainable and optimizer variables are bitwise equal on all peers
            after every update, if they were before the first. Then it is checked. If not, `fit`
            validates and saves the average of the models (`average_variables`), and ends with it.
        is_synchronous: Whether the peers meet in every step. If not, `fit` lets each take as many
            steps as it has batches.
    """

    keeps_equal: ClassVar[bool] = False
    is_synchronous: ClassVar[bool] = True

    @functools.cached_property
    def ordinal(self) -> int:
        """How many algorithms of the process were used before.

        Each is counted at its first use, not when it is made. So a peer stays in step that wraps
        one more optimizer and never trains with it, to read a file, say.
        """
        return ordinals.algorithms.take()

    @property
    def name(self) -> str:
        """The beginning of the names of this object's collectives."""
        return f"optimizer{self.ordinal}"

    @property
    def metrics(self) -> dict[str, Any]:
        """Its measurements: scalar variables by their names, NaN before the first.

        `kungfu_tf.Monitor` shows them.
        """
        return {}

    @property
    def sums_rows(self) -> bool:
        """Whether the optimizer adds up duplicate rows of `tf.IndexedSlices` before it uses them.

        Then they may be added up before they travel. Optimizers of Keras 3 use each row by itself:
        Adam squares one by one. On sums they would train in another way than in one process. The
        wrapper knows the optimizer, and sets this.
        """
        return bool(vars(self).get("_sums_rows", False))

    @property
    def variables(self) -> Sequence[Any]:
        """Its state from step to step, which is equal on all peers.

        Newcomers of `fit` get it from rank 0, with the optimizer's state.
        """
        return []

    def optimizer_variables(self) -> Sequence[Any]:
        """The state of the optimizer that this object works for: slots, iterations, learning rate.

        The wrapper says which; slots are there after the first update.
        """
        return []

    def optimizer_step(self) -> Any:
        """The optimizer's step, an integer variable; None if it counts none."""
        return None

    def before_training(self) -> None:
        """Drops what is left of an earlier training.

        `fit` calls it on every peer before the peers meet: no other one has begun yet.
        """

    def gradients(
        self, gradients: Sequence[Any], variables: Sequence[Any], *, step: Any = None
    ) -> list[Any]:
        """Returns the gradients to apply.

        Args:
            gradients: For each variable a tensor or `tf.IndexedSlices` of its shape; or None, if no
                peer has one. If only others have one, it is zero here. (In a TF1 graph it is None.)
            variables: What they are the gradients of.
            step: The optimizer's step, an integer tensor or variable; None if it counts none.
        """
        del variables, step
        return list(gradients)

    def before_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Changes the variables before the optimizer does."""
        del variables
        return []

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Changes or publishes the variables after the optimizer has changed them."""
        del variables
        return []
