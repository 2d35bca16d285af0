"""Keras 3 compiles steps by XLA, and a collective cannot be compiled.

The `jit_compile="auto"` of Keras means yes where it sees a GPU. In a job of several peers it means
no here: nobody can tell from a model whether its step will exchange something. A program that asks
for True gets it, and an error that says what to do.

A model that was compiled before the program's first wrapped optimizer, or loaded from a file, still
has what "auto" came to there. So the question is asked again when the step is made.
"""

from __future__ import annotations

import inspect
from typing import Any

from kungfu_tf import peer
from kungfu_tf.upstream.patches import original


def compile_model(keras: Any, model: Any, *args: Any, **kwargs: Any) -> None:
    """Notes whether the program asked for XLA."""
    call = inspect.signature(keras).bind(model, *args, **kwargs)
    keras(model, *args, **kwargs)
    vars(model)["_kungfu_asked_to_compile"] = call.arguments.get("jit_compile") is True


def compile_from_config(keras: Any, model: Any, config: Any) -> None:
    """What was saved is what "auto" came to: nobody has asked in this program."""
    keras(model, config)
    vars(model)["_kungfu_asked_to_compile"] = False


def auto(keras: Any, model: Any) -> bool:
    """The value of "auto" for `model`."""
    return bool(keras(model)) and peer.is_single_process()


def make_train_function(keras: Any, model: Any, force: bool = False) -> Any:
    """Makes a function that XLA does not compile, unless the program asked for XLA."""
    asked = vars(model).get("_kungfu_asked_to_compile")
    if asked is None:  # compiled before a wrapped optimizer: all but "auto" was asked for
        asked = model.jit_compile and not _keras_auto(model)
    compiles = model.jit_compile and not model.run_eagerly
    if compiles and not asked and not peer.is_single_process():
        model.jit_compile = False
        force = True
    return keras(model, force)


def _keras_auto(model: Any) -> bool:
    """What Keras takes "auto" for, without us."""
    resolve = "_resolve_auto_jit_compile"
    return hasattr(model, resolve) and bool(original(type(model), resolve)(model))
