"""The patches of TensorFlow, installed once an optimizer is wrapped or a hook of ours is made.

Graphs that are trained without us, and single processes, run as before.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.tf1.session import estimator, run
from kungfu_tf.upstream import patches
from kungfu_tf.upstream.patches import Owner, Patch

_ESTIMATOR = "tensorflow_estimator"


def install(*, with_estimators: bool) -> None:
    """Installs the patches, once.

    Args:
        with_estimators: Whether to patch Estimator, too, if TensorFlow has one; this imports it.
            That its package is installed says nothing: pip leaves it behind when TensorFlow 2.15
            is upgraded.

    Raises:
        UnsupportedVersionError: If TensorFlow lacks a needed name.
    """
    is_there = with_estimators and hasattr(tf.compat.v1, "estimator")
    table = ESTIMATOR if is_there or _ESTIMATOR in sys.modules else ()
    title = f"TensorFlow {tf.__version__}"
    patches.install([*SESSION, *table], tf, title, is_single_process=peer.is_single_process)


def _in(module: str, label: str) -> Owner:
    """A class of a module of TensorFlow or Estimator; for the label "", the module itself."""

    def find(package: Any, name: str) -> Any:
        found = importlib.import_module(module)
        return getattr(found, label) if label else found

    return Owner(label or module.rpartition(".")[2], find)


_RUN = _in("tensorflow.python.client.session", "BaseSession")
_MONITORED = _in("tensorflow.python.training.monitored_session", "_MonitoredSession")
_ESTIMATORS = _in(f"{_ESTIMATOR}.python.estimator.estimator", "Estimator")
_OF_ESTIMATORS = _in(f"{_ESTIMATOR}.python.estimator.estimator", "")
_EVALUATOR = _in(f"{_ESTIMATOR}.python.estimator.hooks.hooks", "InMemoryEvaluatorHook")
_EXECUTOR = _in(f"{_ESTIMATOR}.python.estimator.training", "_TrainingExecutor")

_ONE_END = "a session ends on all peers at the same step"
_ONE_WRITER = "rank 0 alone writes"
_PRIVATE = "evaluation is a peer's own"
_PROXY = "what a peer reads is what rank 0 has written"

SESSION = (
    Patch(_RUN, "run", run.run, _ONE_END),
    Patch(_MONITORED, "__init__", run.create, "all peers begin with equal variables"),
    Patch(_MONITORED, "run", run.run_monitored, _ONE_END),
    Patch(_MONITORED, "_close_internal", run.close, _ONE_END),
)

ESTIMATOR = (
    Patch(_ESTIMATORS, "_train_model", estimator.train, "training on all peers"),
    Patch(
        *(_ESTIMATORS, "_get_features_and_labels_from_input_fn", estimator.make_input),
        "as many steps on all peers",
    ),
    Patch(_ESTIMATORS, "_call_model_fn", estimator.call_model, "batches count by their samples"),
    Patch(_ESTIMATORS, "evaluate", estimator.evaluate, _PRIVATE),
    Patch(_ESTIMATORS, "predict", estimator.predict, _PRIVATE),
    Patch(_EVALUATOR, "begin", estimator.privately, _PRIVATE),
    Patch(_EVALUATOR, "_evaluate", estimator.privately, _PRIVATE),
    Patch(_ESTIMATORS, "_export_all_saved_models", estimator.export, _ONE_WRITER),
    Patch(_ESTIMATORS, "get_variable_names", estimator.variable_names, _PROXY),
    Patch(_ESTIMATORS, "get_variable_value", estimator.variable_value, _PROXY),
    Patch(
        *(_OF_ESTIMATORS, "_load_global_step_from_checkpoint_dir", estimator.first_step),
        "all peers begin at the step of rank 0's checkpoint",
    ),
    Patch(_OF_ESTIMATORS, "_write_dict_to_summary", estimator.write, _ONE_WRITER),
    Patch(_OF_ESTIMATORS, "_write_checkpoint_path_to_summary", estimator.write, _ONE_WRITER),
    Patch(_EXECUTOR, "run_local", estimator.train_and_evaluate, "training on all peers"),
)
