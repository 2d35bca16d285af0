"""Keras 3 compiles steps by XLA, and a collective cannot be compiled.

Keras takes `jit_compile="auto"` for True where it sees a GPU. Here it is False for a model that all
peers train. A program that asks for True gets it, and then an error that says what to do.

When `compile` is called, the optimizers may not be known yet. A GAN has optimizers of its own, and
the optimizer of a loaded model is wrapped afterwards. So the decision is taken again when the train
function is made.
"""

from __future__ import annotations

import inspect
from typing import Any

from kungfu_tf import peer
from kungfu_tf.keras.fit.call import current
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.patches import original


def compile_model(keras: Any, model: Any, *args: Any, **kwargs: Any) -> None:
    """Notes whether the program asks for XLA."""
    call = inspect.signature(keras).bind(model, *args, **kwargs)
    keras(model, *args, **kwargs)
    vars(model)["_kungfu_asked_to_compile"] = call.arguments.get("jit_compile") is True


def compile_from_config(keras: Any, model: Any, config: Any) -> None:
    """Notes that the program does not ask for XLA: what was saved may come from "auto"."""
    keras(model, config)
    vars(model)["_kungfu_asked_to_compile"] = False


def auto(keras: Any, model: Any) -> bool:
    """The value of "auto" for `model`."""
    return bool(keras(model)) and not _exchanges(model)


def make_train_function(keras: Any, model: Any, force: bool = False) -> Any:
    """Makes a function that XLA does not compile, unless the program asked for XLA."""
    asked = vars(model).get("_kungfu_asked_to_compile")
    if asked is None:  # compiled before a wrapped optimizer: all but "auto" was asked for
        asked = model.jit_compile and not _keras_auto(model)
    if not asked and not model.run_eagerly and model.jit_compile and _exchanges(model):
        model.jit_compile = False
        force = True
    return keras(model, force)


def _keras_auto(model: Any) -> bool:
    """The value of "auto" in plain Keras."""
    resolve = "_resolve_auto_jit_compile"
    return hasattr(model, resolve) and bool(original(type(model), resolve)(model))


def _exchanges(model: Any) -> bool:
    """Whether its train step has collectives, of a wrapped optimizer or of a tape of its own."""
    fit = current()
    is_shared = fit is not None and fit.is_shared and fit.model is model
    return not peer.is_single_process() and (
        is_shared or bool(generations.algorithms_of_model(model))
    )
