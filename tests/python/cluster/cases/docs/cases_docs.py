"""Programs of the documentation, as they stand there, with little data, on each TensorFlow."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from support import operations_done

import kungfu_tf as kf

JOBS = [{"np": 2, "flags": ["-w"]}]
ROOT = Path(__file__).parents[5]
SAMPLES = 256

keras = tf.keras
v1 = tf.compat.v1


def programs_of(page: str) -> list[str]:
    """Those of a page, in their order."""
    text = (ROOT / page).read_text()
    return re.findall(r"^```python.*?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(program: str, **given: Any) -> dict[str, Any]:
    """Runs it with what is given; returns all names that it has then."""
    names = {"kf": kf, "keras": keras, "tf": tf, **given}
    exec(compile(program, "a program of the documentation", "exec"), names)
    return names


def samples() -> tf.data.Dataset:
    """From which nothing can be learned."""
    random = np.random.default_rng(7)
    arrays = random.normal(size=(SAMPLES, 4)), random.normal(size=(SAMPLES, 1))
    return tf.data.Dataset.from_tensor_slices(arrays)


def usual() -> dict[str, Any]:
    """What a Keras program has. Each peer begins with weights of its own."""
    keras.utils.set_random_seed(kf.rank())
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    usual = {"optimizer": keras.optimizers.SGD(0.01), "loss": "mse", "metrics": ["mae"]}
    return {"model": model, "dataset": kf.data.shard(samples()), "callbacks": [], **usual}


def compiled(names: dict[str, Any]) -> Any:
    """The model, with the optimizer that a program has made."""
    names["model"].compile(optimizer=names["optimizer"], loss="mse")
    return names["model"]


def weights_of(model: Any) -> Any:
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


@contextlib.contextmanager
def new_folder() -> Iterator[Path]:
    """Of this peer, which it is in."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def case_readme():
    (program,) = programs_of("README.md")
    import keras as imported

    random = np.random.default_rng(7)
    images = random.integers(256, size=(SAMPLES, 28, 28), dtype=np.uint8)
    data = (images, images[:, 0, 0] % 10)
    with mock.patch.object(imported.datasets.fashion_mnist, "load_data", lambda: (data, data)):
        model = run(program)["model"]
    assert set(model.history.history) == {"loss", "accuracy"}
    assert kf.ops.consensus(weights_of(model))


def case_learning_rates():
    names = {**usual(), **run(programs_of("docs/guides/learning-rates.md")[0])}
    np.testing.assert_allclose(np.asarray(names["optimizer"].learning_rate), 0.2)
    names["optimizer"] = kf.optimizers.SynchronousSGDOptimizer(names["optimizer"])
    model = compiled(names)
    model.fit(names["dataset"].batch(32), callbacks=names["callbacks"], verbose=0)
    assert 0.1 < np.asarray(names["optimizer"].learning_rate) < 0.2


def case_choose_an_optimizer():
    pairs, average, *_ = programs_of("docs/guides/choose-an-optimizer.md")
    names = {**usual(), **run(pairs)}
    model = compiled(names)
    model.fit(names["dataset"].batch(32), verbose=0)
    assert kf.ops.consensus(weights_of(model))
    mean = weights_of(model) + 0.5
    model.set_weights([weight + kf.rank() for weight in model.get_weights()])
    with new_folder() as folder:
        run(average, model=model)
        assert [path.name for path in folder.iterdir()] == ["model.keras"][kf.rank() :]
        if kf.is_root():
            saved = keras.models.load_model(folder / "model.keras")
            np.testing.assert_allclose(weights_of(saved), mean, rtol=1e-5)
    np.testing.assert_allclose(weights_of(model), mean + kf.rank() - 0.5, rtol=1e-5, atol=1e-7)


def case_write_a_policy():
    policy, session = programs_of("docs/guides/write-a-policy.md")
    # The peers' gradients have little in common: the noise scale is 768 samples.
    x, y = np.ones((SAMPLES, 4)), np.tile([[1.0], [0.02]], (SAMPLES // 2, 1))
    dataset = kf.data.shard(tf.data.Dataset.from_tensor_slices((x, y)))
    names = {**usual(), "dataset": dataset, "optimizer": keras.optimizers.SGD(1e-5)}
    names["model"].set_weights([np.zeros_like(w) for w in names["model"].get_weights()])
    optimizer = run(policy, **names)["optimizer"]
    np.testing.assert_allclose(np.asarray(optimizer.learning_rate), 0.7e-5, rtol=1e-5)
    policies = kf.policy.ScheduledBatchSizePolicy("32:1,64:1", scale_learning_rate="linear")
    with tf.Graph().as_default():
        names = run(session, policy=policies)
        weight = v1.get_variable("weight", [], initializer=v1.ones_initializer())
        optimizer = v1.train.GradientDescentOptimizer(names["rate"])
        optimizer = kf.optimizers.SynchronousSGDOptimizer(optimizer)
        train = optimizer.minimize(weight * weight, v1.train.get_or_create_global_step())
        with v1.train.MonitoredTrainingSession(hooks=[names["hook"]]) as session:
            session.run(train)
            size, rate = session.run([names["size"], names["rate"]])
    assert (size, rate) == (64, np.float32(0.2))


def case_elastic_training():
    _, loop = programs_of("docs/tutorials/elastic.md")
    weights = tf.Variable(tf.fill([4, 1], tf.cast(kf.rank(), tf.float64)))
    counts = []

    def train_step(x, y, count):
        with kf.DistributedGradientTape(tf.GradientTape(), samples=count) as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - y))
        weights.assign_sub(0.01 * tape.gradient(loss, [weights])[0])
        counts.append(int(count))

    before = operations_done()
    fewer = loop.replace("max_progress=100)", "max_progress=10)")
    assert fewer != loop
    names = run(fewer, samples=samples(), variables=[weights], train_step=train_step)
    assert names["state"].stop_reason() == "finished"
    assert counts == [32] * 10
    assert kf.ops.consensus(weights)
    assert operations_done() - before > 2 * len(counts)
