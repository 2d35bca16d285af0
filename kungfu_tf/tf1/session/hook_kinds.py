"""The kinds of hooks that a program or an Estimator gives to a training session."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1

_WRITERS = (
    v1.train.CheckpointSaverHook,
    v1.train.LoggingTensorHook,
    v1.train.ProfilerHook,
    v1.train.StepCounterHook,
    v1.train.SummarySaverHook,
)
# These need no agreement in each step. (If one of several StopAtSteps stops first, the other peers
# learn that before their next step.)
_NEED_NO_AGREEMENT = (
    *_WRITERS,
    v1.train.FeedFnHook,
    v1.train.FinalOpsHook,
    v1.train.GlobalStepWaiterHook,
    v1.train.StopAtStepHook,
)


def writes(hook: Any) -> bool:
    """Whether it writes or prints something that one peer may do for all."""
    return isinstance(hook, _WRITERS) or is_evaluator(hook)


def is_saver(hook: Any) -> bool:
    """Whether it writes checkpoints."""
    return isinstance(hook, v1.train.CheckpointSaverHook)


def is_evaluator(hook: Any) -> bool:
    """Whether it evaluates while an Estimator trains, and once more at the end."""
    return _is_estimators(hook, "InMemoryEvaluatorHook")


def stops_by_files(hook: Any) -> bool:
    """Whether it ends the training depending on the files of evaluations."""
    return _is_estimators(hook, "_StopOnPredicateHook")


def needs_no_agreement(hook: Any) -> bool:
    """Whether it neither stops the training on this peer alone nor takes long."""
    return type(hook) in _NEED_NO_AGREEMENT and not getattr(hook, "_listeners", [])


def _is_estimators(hook: Any, name: str) -> bool:
    """Whether its class is this one of tensorflow_estimator, which may be missing."""
    kind = type(hook)
    return kind.__name__ == name and kind.__module__.startswith("tensorflow_estimator.")
