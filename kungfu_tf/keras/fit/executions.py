"""`steps_per_execution` in versions of Keras that cannot end an epoch in the middle of an
execution.

An execution is one call of the train function. Keras 2 must know how many steps the last one of an
epoch has. Keras 3 before 3.7 lets it fail after some of its steps. So there, in a `fit` that all
peers share, each execution is one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kungfu_tf.upstream import generations
from kungfu_tf.upstream.warn import warn

if TYPE_CHECKING:
    from kungfu_tf.keras.fit.call import Fit

_ENDS_IN_THE_MIDDLE = (3, 7)


def fit_the_data(fit: Fit, iterator: Any, length: int | None) -> None:
    """Keras 3 before 3.7: makes executions single steps, unless each epoch has only whole ones.

    Args:
        fit: The call.
        iterator: Keras' iterator of its data.
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
    """Keras 2: makes executions single steps, since policies change the number of steps."""
    if generations.steps_per_execution(fit.model) > 1:
        _take_single_steps(
            fit,
            "Keras 2 wants to know how many steps an epoch has, and a PolicyCallback changes that. "
            "With steps_per_epoch it is known",
        )


def _take_single_steps(fit: Fit, why: str) -> None:
    fit.steps_per_execution = generations.steps_per_execution(fit.model)
    _put(fit.model, 1)
    if fit.elastic_run is None:  # all calls of an elastic training use one function
        fit.model.train_function = None
    if fit.elastic_run is None or fit.elastic_run.step == 0:
        warn(f"steps_per_execution is 1 in this fit, not {fit.steps_per_execution}: {why}")


def put_back(fit: Fit) -> None:
    """Gives the model the program's own setting when `fit` ends."""
    if fit.steps_per_execution is not None:
        _put(fit.model, fit.steps_per_execution)
        if fit.elastic_run is None:
            fit.model.train_function = None  # it was made for single steps


def _put(model: Any, steps: int) -> None:
    if hasattr(model, "_steps_per_execution"):
        model._steps_per_execution.assign(steps)
    else:
        model.steps_per_execution = steps
