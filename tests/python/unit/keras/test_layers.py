"""Layers that are made to work over peers: which, and how."""

from __future__ import annotations

import importlib
import importlib.util

import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.upstream import generations

IS_KERAS_3 = any(
    p.generation == 3 and p.module.Model is tf.keras.Model for p in generations.packages()
)
PACKAGES = [name for name in ("keras", "tf_keras") if importlib.util.find_spec(name)]
layers = tf.keras.layers


def is_synchronized(layer: object) -> bool:
    return bool(getattr(layer, "_kungfu_equal", False))


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are other peers. Nothing is computed, so nobody waits for them."""
    monkeypatch.setattr(peer, "is_single_process", lambda: False)


def test_alone_it_is_the_layer_of_keras() -> None:
    layer = kf.layers.SyncBatchNormalization(axis=1, momentum=0.9)
    assert type(layer) is layers.BatchNormalization
    assert (layer.axis, layer.momentum) == (1, 0.9)


@pytest.mark.usefixtures("others")
def test_its_name_is_that_of_keras_layer() -> None:
    layer = kf.layers.SyncBatchNormalization()
    assert is_synchronized(layer)
    assert type(layer).__name__ == "BatchNormalization"
    assert type(layer).__module__ == layers.BatchNormalization.__module__
    plain = tf.keras.layers.serialize(layers.BatchNormalization(name=layer.name))
    assert tf.keras.layers.serialize(layer) == plain


@pytest.mark.usefixtures("others")
def test_copies_are_synchronized() -> None:
    layer = kf.layers.SyncBatchNormalization()
    assert is_synchronized(type(layer).from_config(layer.get_config()))
    model = tf.keras.Sequential([layers.Input((2,)), layer])
    assert is_synchronized(tf.keras.models.clone_model(model).layers[0])


@pytest.mark.usefixtures("others")
def test_nested_and_derived_layers_of_a_model() -> None:
    class Mine(layers.BatchNormalization):
        pass

    inner = tf.keras.Sequential([layers.Dense(2), layers.BatchNormalization()])
    model = tf.keras.Sequential([layers.Dense(2), Mine(), inner])
    assert kf.layers.synchronize(model) is model
    assert [is_synchronized(layer) for layer in model.layers] == [False, True, False]
    assert is_synchronized(inner.layers[1])
    assert isinstance(model.layers[1], Mine)
    made = type(model.layers[1])
    assert type(kf.layers.synchronize(model).layers[1]) is made


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("built", [False, True])
def test_what_only_knows_this_peer_is_not_used(built: bool) -> None:
    """XLA has no collectives, and the fused kernel of Keras 2 no moments but its own."""
    layer = layers.BatchNormalization()
    if built:
        layer.build((None, 2, 2, 3))
    kf.layers.synchronize(layer)
    if not built:
        layer.build((None, 2, 2, 3))
    assert not (layer.supports_jit if IS_KERAS_3 else layer.fused)


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("package", PACKAGES)
def test_layers_of_every_package_of_the_process(package: str) -> None:
    keras = importlib.import_module(package)
    layer = kf.layers.synchronize(keras.layers.BatchNormalization())
    assert isinstance(layer, keras.layers.BatchNormalization)
    assert is_synchronized(layer)


@pytest.mark.usefixtures("others")
def test_parts_of_a_batch_cannot_be_synchronized() -> None:
    """Of which only Keras 2 knows."""
    with pytest.raises(ValueError, match="virtual_batch_size"):
        kf.layers.SyncBatchNormalization(virtual_batch_size=4)


@pytest.mark.parametrize("what", [None, [], tf.keras.optimizers.SGD])
def test_only_models_and_layers_can_be_synchronized(what: object) -> None:
    with pytest.raises(TypeError, match="not a model or layer of Keras"):
        kf.layers.synchronize(what)
