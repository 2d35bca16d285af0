"""The average of models that differ between the peers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import errors, groups, ops, peer
from kungfu_tf.context import trained_variables
from kungfu_tf.ops import group, members
from kungfu_tf.replicas import local_variables
from kungfu_tf.replicas.equality import digests_of_variables
from kungfu_tf.replicas.roles import moving_means
from kungfu_tf.upstream import generations


@contextlib.contextmanager
def average_variables(model_or_variables: Any) -> Iterator[None]:
    """Within it the variables are the average over all peers, bitwise the same on all of them.

    It is for evaluating and saving models of methods that train a model on each peer, such as
    `SynchronousAveragingOptimizer` and `PairAveragingOptimizer`. Where a method has a model of its
    own for that, as `DiLoCoOptimizer` has, it is taken in place of the average. Afterwards every
    peer continues from its own values. Values that were assigned meanwhile stay, such as the best
    weights that a callback restores.

    ```
    v ← mean over peers of v        # on entering
    v ← v of before                 # on leaving, where v is still the mean
    ```

    It works eagerly, and every peer must enter it; of a model whose optimizer has a group, every
    member of that. `fit` does so by itself around its validation
    and the callbacks at an epoch's end, and leaves the average in the model when it ends. In a
    single process the average is the model itself.

    Args:
        model_or_variables: A Keras model, whose trainable variables and moving statistics are
            averaged; or floating variables, as many and of the same shapes on every peer.

    Raises:
        UnimplementedError: In a TF1 graph.
        tf.errors.OpError: As any operation of `kungfu_tf.ops`.

    Example:

    ```python
    with kf.average_variables(model):
        kf.run_on_root(lambda: model.save("model.keras"))
    ```
    """
    variables = _variables_of(model_or_variables)
    with groups.among(_group_of(model_or_variables)):
        own = _exchange_for_averages(variables)
    if own is None:
        yield
        return
    means = digests_of_variables(variables)
    try:
        yield
    finally:
        unchanged = digests_of_variables(variables) == means
        for i in np.flatnonzero(unchanged):
            variables[i].assign(own[i])


def _exchange_for_averages(variables: Sequence[Any]) -> list[Any] | None:
    """Gives the variables their averages. Returns what they were; None if nothing changes."""
    values = _evaluated(variables) if tf.executing_eagerly() else [None] * len(variables)
    if peer.is_single_process() and all(value is None for value in values):
        return None
    if not tf.executing_eagerly():
        raise errors.UnimplementedError(
            "average_variables is for eager code; in a TF1 graph or a function, "
            "kungfu_tf.ops.group_all_reduce(variables, op='mean') returns the averages"
        )
    own = [v.numpy() for v in variables]
    _assign(variables, values, name="average_variables")
    return own


def averaged_variables(model: Any) -> list[Any]:
    """The variables of a model that each peer trains separately: trained ones and moving means."""
    return [*local_variables.averaged(model.trainable_variables), *moving_means(model)]


def share_models(model: Any, *, name: str) -> None:
    """Gives all peers the model of their training. Eager; all peers call it.

    Each algorithm first ends what it has begun since the last meeting.
    """
    for algorithm in generations.algorithms_of_model(model):
        algorithm.finish()
    variables = averaged_variables(model)
    _assign(variables, _evaluated(variables), name=name)


def share_state(model: Any) -> None:
    """Makes the state of each algorithm equal on all peers. Eager; all peers call it."""
    for algorithm in generations.algorithms_of_model(model):
        algorithm.share_state()


def _evaluated(variables: Sequence[Any]) -> list[Any]:
    """For each variable the value that its algorithm has for it; None: the mean."""
    algorithms = [trained_variables.algorithm_of(variable) for variable in variables]
    for algorithm in dict.fromkeys(filter(None, algorithms)):
        algorithm.settle()
    pairs = zip(algorithms, variables, strict=True)
    return [algorithm and algorithm.evaluated(variable) for algorithm, variable in pairs]


def _assign(variables: Sequence[Any], values: Sequence[Any], *, name: str) -> None:
    """Gives each variable its value, and the means to those that have none."""
    for variable, value in zip(variables, values, strict=True):
        if value is not None:
            variable.assign(value)
    pairs = zip(variables, values, strict=True)
    assign_means([variable for variable, value in pairs if value is None], name=name)


def assign_means(variables: Sequence[Any], *, name: str) -> None:
    """Gives all peers the means of their variables, bitwise the same. Eager; all peers call it.

    The peers first compare 8 bytes of each variable. Variables that are equal on all peers keep
    their bits, which a rounded mean might change.
    """
    if not variables or peer.is_single_process():
        return
    different = list(itertools.compress(variables, differ(variables, name=f"{name}/digests")))
    if not different:
        return
    values, agree = [v.read_value() for v in different], [members.identity(different)]
    means = group.agreed_all_reduce(values, op="mean", name=name, agree=agree)
    for variable, mean in zip(different, means, strict=True):
        variable.assign(mean)


def differ(variables: Sequence[Any], *, name: str) -> list[bool]:
    """For each variable, whether it differs between peers, judged by 8 bytes of it. Eager."""
    rows = ops.all_gather(digests_of_variables(variables), name=name).numpy()
    return (rows != rows[0]).any(axis=0).tolist()


def _group_of(model_or_variables: Any) -> Any:
    is_model = hasattr(model_or_variables, "trainable_variables")
    return generations.group_of_model(model_or_variables) if is_model else None


def _variables_of(model_or_variables: Any) -> list[Any]:
    if hasattr(model_or_variables, "trainable_variables"):
        return averaged_variables(model_or_variables)
    variables: Iterable[Any] = model_or_variables
    return [generations.native(v) for v in variables]
