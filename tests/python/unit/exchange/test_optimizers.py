"""Wrapping optimizers: what they are afterwards, and when the algorithm is called."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.optimizers import Algorithm, SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

keras = tf.keras
v1 = tf.compat.v1
IS_KERAS_3 = any(
    p.generation == 3 and p.module.Model is keras.Model for p in generations.packages()
)

FAMILIES = [keras.optimizers] if IS_KERAS_3 else [keras.optimizers, keras.optimizers.legacy]
LossScaleOptimizer = (keras.optimizers if IS_KERAS_3 else keras.mixed_precision).LossScaleOptimizer
MAKERS = [
    pytest.param(lambda family=family, make=make: make(family), id=f"{family.__name__}-{name}")
    for family in FAMILIES
    for name, make in {
        "SGD": lambda family: family.SGD(0.1, momentum=0.9),
        "Adam": lambda family: family.Adam(0.01, clipnorm=0.5),
        "loss scale": lambda family: LossScaleOptimizer(family.SGD(0.1, momentum=0.9)),
    }.items()
]


class Probe(Algorithm):
    """Doubles the gradients and writes down when it is called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.steps: list[int] = []
        self.gradient_shapes: list[Any] = []

    def gradients(self, gradients, variables, *, step=None):
        assert len(gradients) == len(variables)
        self.calls.append("gradients")
        self.steps.append(-1 if step is None else int(step))
        self.gradient_shapes.append([None if g is None else tuple(g.shape) for g in gradients])
        return [None if g is None else 2 * g for g in gradients]

    def before_update(self, variables):
        self.calls.append(f"before {[tuple(v.shape) for v in variables]}")
        return []

    def after_update(self, variables):
        self.calls.append(f"after {[tuple(v.shape) for v in variables]}")
        return []


def variable(value: Any) -> Any:
    return keras.Variable(value) if IS_KERAS_3 else tf.Variable(value)


def train(optimizer: Any, **options: Any) -> list[Any]:
    """Fits a small model and returns its weights and the optimizer's state."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [keras.layers.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)]
    )
    model.compile(optimizer, "mse", **options)
    x = np.random.default_rng(1).normal(size=(64, 4)).astype("float32")
    model.fit(x, x.sum(1, keepdims=True), batch_size=16, epochs=2, shuffle=False, verbose=0)
    states = [np.asarray(generations.native(v)) for v in generations.variables_of(model.optimizer)]
    return [*model.get_weights(), *states]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}, {"steps_per_execution": 3}])
def test_alone_it_is_the_plain_optimizer_bit_by_bit(make, options):
    plain, wrapped = train(make(), **options), train(SynchronousSGDOptimizer(make()), **options)
    assert len(plain) == len(wrapped)
    for expected, found in zip(plain, wrapped, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("make", MAKERS)
def test_it_stays_what_it_was(make):
    plain = make()
    base, config = type(plain), plain.get_config()
    serialized = keras.optimizers.serialize(plain)
    wrapped = SynchronousSGDOptimizer(plain)
    assert wrapped is plain
    assert isinstance(wrapped, base)
    for attribute in ("__name__", "__module__", "__qualname__", "__doc__"):
        assert getattr(type(wrapped), attribute) == getattr(base, attribute)
    assert wrapped.get_config() == config
    assert keras.optimizers.serialize(wrapped) == serialized
    # What Keras makes of the name is the plain class.
    assert type(keras.optimizers.deserialize(serialized)) is base


@pytest.mark.parametrize("make", MAKERS)
def test_one_that_is_made_from_its_config_is_distributed_too(make):
    wrapped = wrap(make(), Probe)
    again = type(wrapped).from_config(wrapped.get_config())
    assert again.get_config() == wrapped.get_config()
    assert_wrapped_apart(again, wrapped)


def assert_wrapped_apart(other, wrapped):
    [mine], [its] = generations.algorithms_of(wrapped), generations.algorithms_of(other)
    assert isinstance(its, Probe)
    assert its is not mine


if IS_KERAS_3:  # Those of Keras 2 cannot be pickled, nor copied in depth.

    @pytest.mark.parametrize("make", MAKERS)
    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
    def test_a_copy_is_distributed_too(make, copied):
        wrapped = wrap(make(), Probe)
        again = copied(wrapped)
        assert again.get_config() == wrapped.get_config()
        assert_wrapped_apart(again, wrapped)

    @pytest.mark.parametrize("make", MAKERS)
    def test_a_pickle_is_of_the_plain_optimizer(make):
        plain = make()
        base, config = type(plain), plain.get_config()
        pickled = pickle.dumps(SynchronousSGDOptimizer(plain))
        assert b"kungfu" not in pickled
        assert type(pickle.loads(pickled)) is base
        assert pickle.loads(pickled).get_config() == config


@pytest.mark.parametrize("make", MAKERS)
def test_a_built_optimizer_keeps_its_state(make):
    def apply_twice(wrap_between: bool) -> list[Any]:
        optimizer, weight = make(), variable([1.0, 2.0])
        optimizer.apply_gradients([(tf.constant([0.5, -1.0]), weight)])
        if wrap_between:
            SynchronousSGDOptimizer(optimizer)
        optimizer.apply_gradients([(tf.constant([0.25, 1.0]), weight)])
        return [
            np.asarray(generations.native(v))
            for v in [weight, *generations.variables_of(optimizer)]
        ]

    for expected, found in zip(apply_twice(False), apply_twice(True), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("make", MAKERS)
def test_the_algorithm_is_called_once_per_update(make):
    optimizer, used, unused = wrap(make(), Probe), variable([0.0, 0.0]), variable([[1.0]])
    [probe] = generations.algorithms_of(optimizer)
    for _ in range(2):
        optimizer.apply_gradients([(tf.ones([2]), used), (None, unused)])
    assert sorted(probe.calls[:3]) == ["after [(2,)]", "before [(2,)]", "gradients"]
    assert probe.calls[2] == "after [(2,)]" and probe.calls[3:] == probe.calls[:3]
    assert probe.steps == [0, 1]
    assert [[shape for shape in step if shape] for step in probe.gradient_shapes] == [[(2,)]] * 2


def test_its_gradients_are_what_is_clipped():
    optimizer, weight = wrap(keras.optimizers.SGD(1.0, clipvalue=3.0), Probe), variable([0.0, 0.0])
    optimizer.apply_gradients([(tf.constant([1.0, 5.0]), weight)])
    np.testing.assert_array_equal(generations.native(weight), [-2.0, -3.0])


def test_clip_in_v1_comes_after_the_exchange():
    weight = tf.Variable([0.0, 0.0])
    optimizer = wrap(v1.train.GradientDescentOptimizer(1.0), Probe)
    for _ in range(2):
        pairs = optimizer.compute_gradients(lambda: tf.reduce_sum(weight * [1.0, 5.0]))
        optimizer.apply_gradients([(tf.clip_by_value(g, -3, 3), v) for g, v in pairs])
    np.testing.assert_array_equal(weight, [-4.0, -6.0])


def test_v1_gradients_from_elsewhere_are_exchanged_when_they_are_applied():
    with tf.Graph().as_default(), v1.Session() as session:
        a, b = v1.get_variable("a", [], tf.float32), v1.get_variable("b", [], tf.float32)
        loss = a + 10 * b
        optimizer = wrap(v1.train.GradientDescentOptimizer(1.0), Probe)
        [computed] = optimizer.compute_gradients(loss, [a])
        [elsewhere] = tf.gradients(loss, [b])
        train_op = optimizer.apply_gradients([(elsewhere, b), computed])
        session.run([v1.assign(a, 0.0), v1.assign(b, 0.0)])
        session.run(train_op)
        assert session.run([a, b]) == [-2.0, -20.0]


def test_tensorflow_warns_of_nothing_when_a_function_calls_a_v1_optimizer(monkeypatch):
    warnings = []
    monkeypatch.setattr(tf.get_logger(), "warning", lambda *message: warnings.append(message))
    weight = tf.Variable([1.0, 2.0])
    optimizer = SynchronousSGDOptimizer(v1.train.GradientDescentOptimizer(0.5))

    @tf.function
    def step():
        optimizer.apply_gradients([(2 * weight, weight)])

    step()
    np.testing.assert_array_equal(weight, [0.0, 0.0])
    assert not warnings


def test_adaptive_sgd_in_a_program_without_control_flow_v2():
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default(), v1.Session() as session:
            weight = v1.get_variable("w", initializer=1.0, use_resource=False)
            inner = v1.train.GradientDescentOptimizer(0.25)
            optimizer = kf.optimizers.AdaptiveSGDOptimizer(inner, change_step=1)
            step = v1.train.get_or_create_global_step()
            train_op = optimizer.minimize(weight * weight, global_step=step)
            session.run(v1.global_variables_initializer())
            for _ in range(3):
                session.run(train_op)
            assert session.run(weight) == 0.125
    finally:
        v1.enable_control_flow_v2()


def test_wrapping_twice_is_refused():
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))
    with pytest.raises(ValueError, match="SGD is wrapped already"):
        SynchronousSGDOptimizer(optimizer)
    with pytest.raises(ValueError, match="the outermost only"):
        SynchronousSGDOptimizer(LossScaleOptimizer(optimizer))
    with pytest.raises(ValueError, match="wrapped already"):
        SynchronousSGDOptimizer(
            SynchronousSGDOptimizer(LossScaleOptimizer(keras.optimizers.SGD(0.1)))
        )
    with pytest.raises(ValueError, match="wrapped already"):
        SynchronousSGDOptimizer(SynchronousSGDOptimizer(v1.train.AdamOptimizer(0.1)))


@pytest.mark.parametrize(
    ("thing", "advice"),
    [
        (None, "give an instance such as"),
        (keras.optimizers.SGD, r"give an instance, SGD\("),
        (keras.losses.MeanSquaredError(), "give an instance such as"),
        (keras.Sequential(), "wrap its optimizer"),
    ],
)
def test_what_is_no_optimizer_is_refused(thing, advice):
    no_optimizer = r"not an optimizer of Keras or tf\.compat\.v1\.train"
    with pytest.raises(TypeError, match=f"{no_optimizer}.*{advice}"):
        SynchronousSGDOptimizer(thing)


@pytest.mark.parametrize("identifier", ["sgd", {"class_name": "SGD", "config": {}}])
def test_what_compile_makes_an_optimizer_of_is_wrapped(identifier):
    wrapped = SynchronousSGDOptimizer(identifier)
    assert isinstance(wrapped, keras.optimizers.SGD)
    assert generations.is_wrapped(wrapped)


def test_a_config_is_of_the_plain_optimizer():
    """What `compile` makes of it is plain, as what is made of a file; it can be wrapped."""
    wrapped = SynchronousSGDOptimizer(keras.optimizers.SGD(0.25))
    assert not generations.is_wrapped(keras.optimizers.get(keras.optimizers.serialize(wrapped)))
    again = SynchronousSGDOptimizer(keras.optimizers.serialize(wrapped))
    assert generations.is_wrapped(again)
    assert again.get_config() == wrapped.get_config()


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError)])
def test_bucket_bytes_is_a_positive_integer(size, error):
    with pytest.raises(error, match="bucket_bytes"):
        SynchronousSGDOptimizer(keras.optimizers.SGD(0.1), bucket_bytes=size)
    with pytest.raises(error, match="bucket_bytes"):
        kf.DistributedGradientTape(tf.GradientTape(), bucket_bytes=size)


def test_ordinals_count_first_uses():
    first, late, second = Algorithm(), Algorithm(), Algorithm()
    start = first.ordinal
    assert second.ordinal == start + 1
    assert [late.ordinal, first.ordinal] == [start + 2, start]


def registered(package: str) -> Any:
    @keras.utils.register_keras_serializable(package)
    class Slow(keras.optimizers.SGD):
        """An optimizer of the user's."""

    return Slow


def test_registered_classes_keep_their_name():
    plain = registered("test_registered_classes")(0.1)
    expected = keras.optimizers.serialize(plain)
    wrapped = SynchronousSGDOptimizer(plain)
    assert keras.optimizers.serialize(wrapped) == expected
    assert expected["registered_name"] == "test_registered_classes>Slow"


LOAD = """
import sys
sys.modules["kungfu_tf"] = None  # importing it is an error
import numpy as np, tensorflow as tf
for path in sys.argv[1:]:
    model = tf.keras.models.load_model(path)
    state = model.optimizer.variables
    state = state() if callable(state) else state
    np.savez(path + ".npz", *model.get_weights(), *[v.numpy() for v in state])
    print(type(model.optimizer).__module__, type(model.optimizer).__name__)
"""


def save_trained(optimizer: Any, path: str) -> None:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    model.fit(np.ones((8, 4)), np.ones((8, 1)), epochs=2, verbose=0)
    model.save(path)


def test_a_saved_model_opens_where_kungfu_tf_is_not_installed(tmp_path):
    """As one that was saved with the plain optimizer: class, weights and state."""
    paths = []
    for i, maker in enumerate(MAKERS):
        [make] = maker.values
        for kind, optimizer in (("plain", make()), ("wrapped", SynchronousSGDOptimizer(make()))):
            paths.append(str(tmp_path / f"{kind}{i}.keras"))
            save_trained(optimizer, paths[-1])
    found = subprocess.run(
        [sys.executable, "-c", LOAD, *paths],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
    )
    classes = found.stdout.splitlines()
    assert classes[0::2] == classes[1::2]
    for plain_path, wrapped_path in zip(paths[0::2], paths[1::2], strict=True):
        plain, wrapped = np.load(plain_path + ".npz"), np.load(wrapped_path + ".npz")
        assert plain.files == wrapped.files
        for name in plain.files:
            np.testing.assert_array_equal(wrapped[name], plain[name])


def test_a_loaded_optimizer_can_be_wrapped_again(tmp_path):
    path = str(tmp_path / "model.keras")
    optimizer = SynchronousSGDOptimizer(keras.optimizers.Adam(0.1))
    save_trained(optimizer, path)
    again = SynchronousSGDOptimizer(keras.models.load_model(path).optimizer)
    assert generations.is_wrapped(again)
    for expected, found in zip(
        generations.variables_of(optimizer), generations.variables_of(again), strict=True
    ):
        np.testing.assert_array_equal(generations.native(found), generations.native(expected))
