"""What a peer writes of its own at a backup, and finds again."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.keras.saving import algorithm_state
from kungfu_tf.keras.saving.own_parts import OwnParts
from kungfu_tf.upstream import generations


def model_of(dtype: str) -> keras.Model:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(2, dtype=dtype)])
    model.compile(kf.optimizers.LocalSGDOptimizer(keras.optimizers.SGD(0.1, 0.9), every=2), "mse")
    for optimizer in generations.optimizers_of(model):
        optimizer.build(model.trainable_variables)
    return model


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_each_dtype_comes_back(dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithm_state, "exists", lambda _folder: True)
    model = model_of(dtype)
    parts = OwnParts(model, str(tmp_path), is_kept=True)
    values = [tf.cast(tf.fill(w.shape, 1.5), w.dtype) for w in model.trainable_variables]
    for weight, value in zip(model.trainable_variables, values, strict=True):
        weight.assign(value)
    parts.save()
    for weight in model.trainable_variables:
        weight.assign(tf.zeros(weight.shape, weight.dtype))
    parts.restore()
    for weight, value in zip(model.trainable_variables, values, strict=True):
        assert np.array_equal(tf.convert_to_tensor(weight).numpy(), value.numpy())
