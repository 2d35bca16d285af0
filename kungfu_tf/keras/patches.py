"""The patches of Keras, installed once an optimizer is wrapped or a callback of ours is made.

For a model that is trained without us, and in a single process, they work as before. Public names
lead to private ones: a method is patched in the class of `keras.Model` that defines it, of any
name.
"""

from __future__ import annotations

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.exchange import sums
from kungfu_tf.keras.fit import (
    added_losses,
    compilation,
    epoch_iterators,
    evaluation,
    loss_means,
    misuse_warnings,
    progress_bar,
    run,
)
from kungfu_tf.keras.fit.first_epoch import first_epoch_and_step
from kungfu_tf.keras.fit.metric_results import results
from kungfu_tf.keras.fit.on_batch import train_on_batch
from kungfu_tf.keras.saving import backup_folder, model_files
from kungfu_tf.upstream import generations, patches
from kungfu_tf.upstream.patches import Owner, Patch, class_used_by, defining


def install() -> None:
    """Patches the Keras packages that are imported, once.

    Raises:
        UnsupportedVersionError: If one of them lacks a needed name.
    """
    for package in generations.packages():
        table = KERAS_3 if package.generation == 3 else KERAS_2
        patches.install(table, package, package.title, is_single_process=peer.is_single_process)


_MODEL = Owner("Model", lambda keras, name: defining(keras.module.Model, name))
_LAYER = Owner("Layer", lambda keras, name: defining(keras.module.layers.Layer, name))
_TAPE = Owner("GradientTape", lambda keras, name: defining(tf.GradientTape, name))
_OPTIMIZER = Owner("Optimizer", lambda keras, name: keras.module.optimizers.Optimizer)
_MEAN = Owner("metrics.Mean", lambda keras, name: keras.module.metrics.Mean)
_PROGRESS = Owner("ProgbarLogger", lambda keras, name: keras.module.callbacks.ProgbarLogger)
_BACKUP = Owner("BackupAndRestore", lambda keras, name: keras.module.callbacks.BackupAndRestore)
_ITERATOR = Owner(
    "EpochIterator",
    lambda keras, name: class_used_by(keras.module.Model.fit, "catch_stop_iteration"),
)
_LOSS = Owner("losses.loss", lambda keras, name: keras.private("losses.loss"))
_HANDLER = Owner(
    "DataHandler", lambda keras, name: keras.private("engine.data_adapter").DataHandler
)
_LOSSES_UTILS = Owner("losses_utils", lambda keras, name: keras.private("utils.losses_utils"))

_METRICS = "metrics are those of all peers"
_NO_XLA = 'jit_compile="auto" leaves out XLA, which cannot compile collectives'
_WEIGHTS = "a warning of losses that are no means over samples"
_SUMS = "a warning of losses that are sums over samples"
_WHOLE = "a file is whole, whatever ends the process"
_NUMBER_OF_STEPS = "the progress bar shows the number of steps of each epoch"

_BOTH = (
    Patch(_MODEL, "fit", run.fit, "training on all peers"),
    Patch(_MODEL, "train_on_batch", train_on_batch, "all peers begin with equal variables"),
    Patch(_MODEL, "evaluate", evaluation.evaluate, "validation of the peers' average"),
    Patch(_MODEL, "predict", evaluation.predict, "a callback may predict on one peer"),
    Patch(_TAPE, "gradient", sums.gradient, "losses that are no scalars are refused"),
    Patch(_LAYER, "add_loss", added_losses.add_loss, _SUMS, is_needed=False),
    Patch(_MODEL, "save", model_files.save, _WHOLE, is_needed=False),
    Patch(_MODEL, "save_weights", model_files.save, _WHOLE, is_needed=False),
    Patch(_PROGRESS, "on_epoch_begin", progress_bar.begin_epoch, _NUMBER_OF_STEPS, is_needed=False),
    Patch(_PROGRESS, "_finalize_progbar", progress_bar.finish, _NUMBER_OF_STEPS, is_needed=False),
)

KERAS_3 = (
    *_BOTH,
    Patch(_MODEL, "_flatten_layers", None, "moving statistics are averaged"),
    Patch(
        _OPTIMIZER, "_clip_gradients", None, "accumulated gradients are exchanged at each update"
    ),
    Patch(_OPTIMIZER, "_backend_update_step", None, "algorithms work around an update"),
    Patch(_MODEL, "_get_metrics_result_or_logs", results, _METRICS),
    Patch(_MEAN, "update_state", loss_means.update_mean, "a batch's loss counts by its samples"),
    Patch(_BACKUP, "_save_model", backup_folder.save, _WHOLE, is_needed=False),
    Patch(_BACKUP, "on_train_begin", backup_folder.restore, _WHOLE, is_needed=False),
    Patch(_BACKUP, "on_train_end", backup_folder.remove, _WHOLE, is_needed=False),
    Patch(_ITERATOR, "__init__", epoch_iterators.make_epoch_iterator, "as many steps on all peers"),
    Patch(_MODEL, "compile", compilation.compile_model, _NO_XLA, is_needed=False),
    Patch(
        *(_MODEL, "compile_from_config", compilation.compile_from_config, _NO_XLA), is_needed=False
    ),
    Patch(_MODEL, "_resolve_auto_jit_compile", compilation.auto, _NO_XLA, is_needed=False),
    Patch(
        *(_MODEL, "make_train_function", compilation.make_train_function, _NO_XLA), is_needed=False
    ),
    Patch(
        *(_LOSS, "reduce_weighted_values", misuse_warnings.reduce_weighted_values, _WEIGHTS),
        is_needed=False,
    ),
)

KERAS_2 = (
    *_BOTH,
    Patch(_MODEL, "_validate_and_get_metrics_result", results, _METRICS),
    Patch(
        *(_MODEL, "_maybe_load_initial_counters_from_ckpt", first_epoch_and_step),
        "all peers begin at the step of rank 0's backup",
    ),
    Patch(
        *(_HANDLER, "_configure_dataset_and_inferred_steps", epoch_iterators.configure_dataset),
        "as many steps on all peers",
    ),
    Patch(
        _LOSSES_UTILS,
        "apply_valid_mask",
        misuse_warnings.apply_valid_mask,
        _WEIGHTS,
        is_needed=False,
    ),
)
