"""The state of a model besides its variables: derived constants, tables, untracked variables.

Layers with `adapt` derive constants from their variables, such as the `mean` of `Normalization`.
Vocabularies are tables. Keras 3 does not track a `tf.Variable`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from kungfu_tf.replicas.equality import digests_of, digests_of_variables
from kungfu_tf.upstream import generations


@contextlib.contextmanager
def derived_anew(model: Any) -> Iterator[None]:
    """Afterwards layers whose variables have changed within it derive their constants again.

    Functions that were traced with the old constants are traced again.
    """
    layers = [
        (layer, variables)
        for layer in model._flatten_layers()
        if hasattr(layer, "finalize_state") and (variables := _own_variables(layer))
    ]
    before = [digests_of_variables(variables) for _, variables in layers]
    yield
    for (layer, variables), digests in zip(layers, before, strict=True):
        if not np.array_equal(digests_of_variables(variables), digests):
            layer.finalize_state()
            model.test_function = model.predict_function = None


class Hidden(NamedTuple):
    """A part of that state.

    Attributes:
        label: Its name and its layer, for messages.
        digest: A digest of 8 bytes.
    """

    label: str
    digest: int


def found_in(model: Any) -> list[Hidden]:
    """The tables and the untracked variables of a model's layers. Eager."""
    return [
        *(
            Hidden(f"the vocabulary ({where})", _digest_of(table))
            for where, table in _tables(model)
        ),
        *(
            Hidden(
                f"the untracked variable {v.name!r} ({where})", int(digests_of_variables([v])[0])
            )
            for where, v in untracked_variables(model)
        ),
    ]


def untracked_variables(model: Any) -> Iterator[tuple[str, Any]]:
    """The `tf.Variable`s in attributes of Keras 3 layers. Keras 2 tracks all but its own."""
    if generations.package_of(model).generation == 3:
        for where, value in _attributes(model):
            if isinstance(value, tf.Variable) and getattr(value, "_kungfu_combine", "") != "own":
                yield where, value


def _tables(model: Any) -> Iterator[tuple[str, Any]]:
    for where, value in _attributes(model):
        if hasattr(value, "export") and hasattr(value, "key_dtype"):
            yield where, value


def _attributes(model: Any) -> Iterator[tuple[str, Any]]:
    """Each object in an attribute of a layer, also in lists and dicts, and where it is; once."""
    seen: set[int] = set()
    for layer in model._flatten_layers():
        waiting = [(f"{name} of layer '{layer.name}'", v) for name, v in vars(layer).items()]
        while waiting:
            where, value = waiting.pop(0)
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, dict):
                waiting.extend((where, v) for v in value.values())
            elif isinstance(value, (list, tuple)):
                waiting.extend((where, v) for v in value)
            else:
                yield where, value


def _digest_of(table: Any) -> int:
    """A digest of a table's pairs, whatever their order; 0 if it is not initialised yet."""
    try:
        keys, values = (np.asarray(part) for part in table.export())
    except tf.errors.FailedPreconditionError:
        return 0
    order = np.argsort(keys, kind="stable")
    return int(digests_of([np.array([repr((keys[order].tolist(), values[order].tolist()))])])[0])


def _own_variables(layer: Any) -> list[Any]:
    of_keras_3 = getattr(layer, "_non_trainable_variables", None)
    own = layer._non_trainable_weights if of_keras_3 is None else of_keras_3
    return list(generations.only_variables(own))
