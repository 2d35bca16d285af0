"""Several steps in one call of the train function (`steps_per_execution`), where Keras cannot.

An epoch may end in the middle of an execution. Keras 2 must know then how many steps it has, and
Keras 3 before 3.7 lets the whole execution fail, after it has done a part of it. There, in a `fit`
that all peers share, each execution is one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kungfu_tf.upstream import generations
from kungfu_tf.upstream.warn import warn

if TYPE_CHECKING:
    from kungfu_tf.keras.fit.call import Fit

_ENDS_IN_THE_MIDDLE = (3, 7)


def fit_the_data(fit: Fit, iterator: Any, length: int | None) -> None:
    """Lets executions of an old Keras 3 be single steps, unless all of them are whole.

    Args:
        fit: The one that is running.
        iterator: Keras' of its data.
        length: The number of batches of an epoch, if known.
    """
    package = generations.package_of(fit.model)
    steps = generations.steps_per_execution(fit.model)
    is_whole = fit.elastic_run is None and length is not None and length % steps == 0
    if steps == 1 or is_whole or package.version >= _ENDS_IN_THE_MIDDLE:
        return
    _take_single_steps(
        fit,
        f"{package.title} cannot end an epoch in the middle of an execution. Keras from 3.7 on "
        "can, and so can a number of batches that is a multiple of it",
    )
    iterator.steps_per_execution = 1


def follow_the_policies(fit: Fit) -> None:
    """Lets executions of Keras 2 be single steps: epochs have other numbers of them each time."""
    if generations.steps_per_execution(fit.model) > 1:
        _take_single_steps(
            fit,
            "Keras 2 wants to know how many steps an epoch has, and a PolicyCallback changes that. "
            "With steps_per_epoch it is known",
        )


def _take_single_steps(fit: Fit, why: str) -> None:
    fit.steps_per_execution = generations.steps_per_execution(fit.model)
    _put(fit.model, 1)
    if fit.elastic_run is None:  # which keeps the function that it has made
        fit.model.train_function = None
    if fit.elastic_run is None or fit.elastic_run.step == 0:
        warn(f"steps_per_execution is 1 in this fit, not {fit.steps_per_execution}: {why}")


def put_back(fit: Fit) -> None:
    """When `fit` has ended: the model has what the program wants."""
    if fit.steps_per_execution is not None:
        _put(fit.model, fit.steps_per_execution)
        if fit.elastic_run is None:
            fit.model.train_function = None  # it was made for one


def _put(model: Any, steps: int) -> None:
    if hasattr(model, "_steps_per_execution"):
        model._steps_per_execution.assign(steps)
    else:
        model.steps_per_execution = steps
