"""The extension point for distributed methods, which work around an optimizer's update.

A method is a subclass of `Algorithm`, and a function that gives it to `wrap`. It works with all
generations of optimizers:

```python
class Averaging(Algorithm):
    '''Each peer updates alone. Afterwards the models are averaged.'''

    def after_update(self, variables):
        name = f"{self.name}/model"
        means = ops.group_all_reduce([v.read_value() for v in variables], op="mean", name=name)
        return [v.assign(mean) for v, mean in zip(variables, means)]


def AveragingOptimizer(optimizer):
    return wrap(optimizer, Averaging)
```
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import tensorflow as tf

from kungfu_tf.context import ordinals
from kungfu_tf.context.meets import Meets
from kungfu_tf.exchange.accumulation import Accumulation
from kungfu_tf.exchange.codec import Codec
from kungfu_tf.groups import Group

if TYPE_CHECKING:
    from kungfu_tf.exchange.schedule import Schedule


class Algorithm:
    """A distributed method. Each wrapped optimizer has one object, and calls in each step:

    1. `before_step`,
    2. `gradients`, before anything else uses them (finite check, clipping, weight decay),
    3. `before_update`, when all gradients are known,
    4. the update itself,
    5. `after_update`,
    6. `after_step`.

    A step is one call of `apply` or `apply_gradients`; of nested optimizers that of the outermost.
    A step makes no update if it only accumulates gradients, or if a loss scale skips it. Then only
    1 and 6 are called, perhaps 2.

    In Keras 2 the optimizer calls `gradients` within the update. All methods are traced in a
    `tf.function`. They run on every peer in the same steps, so each may issue collectives. If a
    loss scale lets each peer skip steps of its own (`SOMETIMES`), only 1 and 6 run on every peer.
    Variables are `tf.Variable`s, in the optimizer's order, without those of `kf.layers.local`.

    In a TF1 graph the methods around a step and an update return the operations that change
    variables. Elsewhere their results are ignored.

    Attributes:
        keeps_equal: Whether all trainable and optimizer variables are bitwise equal on all peers
            after every update, if they were before the first. If so, `fit` checks it. If not, `fit`
            validates and saves the average of the models (`average_variables`), and ends with it.
        meets: How often the peers meet. With `SOMETIMES`, `fit` asks them for nothing between the
            meetings that `schedule` names. With `NEVER`, it lets each peer take as many steps as it
            has batches.
        schedule: The meetings, with `SOMETIMES`; else None.
        accumulation: What adds up the gradients of several steps, of which only the last calls the
            methods below; None: each step is an update. It is for Keras 2.
        group: The peers among which the methods below are called; None: all.
        compression: The codec of what it exchanges, which must be the same on all peers; None.
        is_sharded: Whether each peer updates some of the variables only, and has their slots.
    """

    keeps_equal: ClassVar[bool] = False
    is_sharded: ClassVar[bool] = False
    meets: ClassVar[Meets] = Meets.EVERY_STEP
    schedule: Schedule | None = None
    accumulation: Accumulation | None = None
    group: Group | None = None
    compression: Codec | None = None

    @functools.cached_property
    def ordinal(self) -> int:
        """How many algorithms of this process, or of the group, were used before this one.

        It counts at its first use, not when it is made. So a peer may wrap one more optimizer than
        others, for instance to read a file, if it never trains with it.
        """
        return ordinals.of_algorithms(self.group).take()

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

    @functools.cached_property
    def state(self) -> tf.Module:
        """What it remembers, equal on all peers, as `tf.train.Checkpoint` takes it."""
        return tf.Module()

    @property
    def variables(self) -> Sequence[Any]:
        """Its state, which is equal on all peers. Newcomers to `fit` get it from rank 0."""
        return list(self.state.variables)

    @property
    def applies_own_gradients(self) -> bool:
        """Whether `gradients` returns each peer's own, as it does by default."""
        return type(self).gradients is Algorithm.gradients

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

    def build(self, variables: Sequence[Any]) -> None:
        """Creates the state for variables that it will be given.

        `fit` calls it on every peer before all get the state of rank 0. Elsewhere the first step
        comes without it.
        """

    def before_step(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Changes the variables before a step. They are those that peers exchange."""
        del variables
        return []

    def after_step(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Changes the variables after a step, also one without an update."""
        del variables
        return []

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

    @property
    def own_variables(self) -> Sequence[Any]:
        """What it remembers that differs between peers. Newcomers begin anew with it."""
        return []

    @property
    def has_own_state(self) -> bool:
        """Whether each peer has a part of the state, which `share_state` makes equal."""
        return self.compression is not None

    def share_state(self) -> None:
        """Makes the state equal on all peers, if each has a part of its own. Eager; all call it.

        `fit` calls it before rank 0's state is saved by `BackupAndRestore`, before peers come and
        go, and at its end.
        """

    def rest(self) -> None:
        """Lets the others know that this peer takes no step before they meet. Eager.

        `fit` calls it when this peer's epoch has no more batches. Others may still train.
        """

    def settle(self) -> None:
        """Waits until what the peers have begun is done, before `evaluated`. Eager; all call it."""

    def finish(self) -> None:
        """Ends what was begun since the last meeting. Eager; all peers call it.

        `fit` calls it at its end, and before peers come and go.
        """

    def evaluated(self, variable: Any) -> Any:
        """What is evaluated and saved in place of a variable, in eager code.

        Returns:
            A value that all peers have; or None, for the mean over the peers.
        """
        del variable
