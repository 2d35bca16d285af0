"""Keras 3 compiles steps by XLA, and a collective cannot be compiled.

"auto" of `jit_compile`, which means yes where Keras sees a GPU, means no for a model that all peers
train; whoever asks for True gets it, and an error that says what to do. What a model is trained by
may be known later than `compile` is called (a GAN has optimizers of its own; the optimizer of a
model that was loaded is wrapped afterwards), so it is asked again when the step is made.
"""

from __future__ import annotations

import inspect
from typing import Any

from kungfu_tf import _keras, peer
from kungfu_tf._replace import replace
from kungfu_tf.fit.running import current


def install(package: _keras.Package) -> None:
    """Replaces the functions of Keras 3, once. For models that no peer shares they do the same."""
    trainers = package.private("trainers.trainer")
    if hasattr(trainers.Trainer, "_resolve_auto_jit_compile"):
        replace(trainers.Trainer, "_resolve_auto_jit_compile", _auto)
    else:  # a function of its own in the first versions of Keras 3
        replace(trainers, "resolve_auto_jit_compile", _auto)
    replace(trainers.Trainer, "compile", _compile)
    replace(trainers.Trainer, "compile_from_config", _compile_from_config)
    tensorflow = package.private("backend.tensorflow.trainer").TensorFlowTrainer
    replace(tensorflow, "make_train_function", _make_train_function)


def _compile(original: Any, model: Any, *args: Any, **kwargs: Any) -> None:
    call = inspect.signature(original).bind(model, *args, **kwargs)
    original(model, *args, **kwargs)
    vars(model)["_kungfu_asked_to_compile"] = call.arguments.get("jit_compile") is True


def _compile_from_config(original: Any, model: Any, config: Any) -> None:
    """What was saved is what "auto" came to: nobody has asked in this program."""
    original(model, config)
    vars(model)["_kungfu_asked_to_compile"] = False


def _auto(original: Any, model: Any) -> bool:
    return bool(original(model)) and not _exchanges(model)


def _make_train_function(original: Any, model: Any, force: bool = False) -> Any:
    asked = vars(model).get("_kungfu_asked_to_compile")
    if asked is None:  # compiled before there was a wrapped optimizer: what "auto" is not was asked
        asked = model.jit_compile and not _keras_auto(model)
    if not asked and not model.run_eagerly and model.jit_compile and _exchanges(model):
        model.jit_compile = False
        force = True
    return original(model, force)


def _keras_auto(model: Any) -> bool:
    """What Keras takes "auto" for, without us."""
    trainers = _keras.package_of(model).private("trainers.trainer")
    owner = trainers.Trainer
    if hasattr(owner, "_resolve_auto_jit_compile"):
        return bool(owner._resolve_auto_jit_compile.kungfu_replaced(model))
    return bool(trainers.resolve_auto_jit_compile.kungfu_replaced(model))


def _exchanges(model: Any) -> bool:
    """Whether collectives are in its train step: its optimizer's, or those of a tape of its own."""
    fit = current()
    is_shared = fit is not None and fit.is_shared and fit.model is model
    return not peer.alone() and (is_shared or bool(_keras.algorithms_of_model(model)))
