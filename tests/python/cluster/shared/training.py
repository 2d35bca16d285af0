"""Trains one model twice, by one process and by all peers, and says how the results differ.

Both trainings happen in one job: that of the single process on whole batches, with a plain
optimizer; that of all peers on this peer's rows of the same batches.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.native import libraries
from kungfu_tf.upstream import generations

STEPS_PER_EPOCH = 10
EPOCHS = 5
STEPS = STEPS_PER_EPOCH * EPOCHS
BATCH = 32  # of one peer
FEATURES = 6

Batch = tuple[Any, Any]


@dataclasses.dataclass
class Run:
    """What a training has done to the variables."""

    before: list[Any]
    after: list[Any]
    weights: list[int]  # their digest after each step
    states: list[int]  # that of the optimizer's variables


def samples(count: int, dtype: str = "float64") -> Batch:
    random = np.random.default_rng(seed=7)
    x = random.normal(size=(count, FEATURES))
    y = np.sin(x.sum(axis=1, keepdims=True)) + 0.1 * random.normal(size=(count, 1))
    return x.astype(dtype), y.astype(dtype)


def epoch(dtype: str = "float64") -> Batch:
    """The samples of all peers' steps of one epoch."""
    return samples(STEPS_PER_EPOCH * BATCH * kf.size(), dtype)


def shifted(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The wrong data: each input is its neighbour's."""
    return dataset.map(lambda x, y: (tf.roll(x, 1, axis=0), y))


def whole(data: Batch) -> tf.data.Dataset:
    """What a single process trains on."""
    return tf.data.Dataset.from_tensor_slices(data).batch(BATCH * kf.size())


def mine(data: Batch) -> tf.data.Dataset:
    """This peer's part of the same."""
    return kf.data.shard(tf.data.Dataset.from_tensor_slices(data)).batch(BATCH)


def steps(dataset: tf.data.Dataset, epochs: int = EPOCHS) -> Iterator[Batch]:
    for _ in range(epochs):
        yield from dataset


def digest(values: Sequence[Any]) -> int:
    """Of the bytes of all values."""
    state = hashlib.blake2b(digest_size=8)
    for value in values:
        state.update(np.ascontiguousarray(value).tobytes())
    return int.from_bytes(state.digest(), "little", signed=True)


def values_of(variables: Sequence[Any]) -> list[Any]:
    return [generations.native(v).numpy() for v in variables]


def flat(values: Sequence[Any]) -> Any:
    """One array of all of them."""
    return np.concatenate([np.ravel(value) for value in values])


def flat_weights(model: Any) -> Any:
    """All weights, in one array."""
    return flat(model.get_weights())


def differences(run: Run, single: Run, tolerance: float) -> list[str]:
    """What is wrong with `run`, empty if nothing is. All peers must call it."""
    wrong = []
    if not kf.ops.consensus(np.array(run.weights, dtype=np.int64)):
        wrong.append("the peers' weights differ")
    if not kf.ops.consensus(np.array(run.states, dtype=np.int64)):
        wrong.append("the peers' optimizers differ")
    for i, (before, after, expected) in enumerate(
        zip(run.before, run.after, single.after, strict=True)
    ):
        off = np.linalg.norm(after - expected) / np.linalg.norm(expected)
        moved = np.linalg.norm(expected - before) / np.linalg.norm(expected)
        if not off <= tolerance:
            wrong.append(f"variable {i} is off by {off:.2g}")
        if not moved >= 0.01:
            wrong.append(f"variable {i} moved only by {moved:.2g}")
    return wrong


def completed(optimizer: Any) -> list[int]:
    """How often each bucket of a wrapped optimizer was reduced."""
    [algorithm] = generations.algorithms_of(optimizer)
    counts: list[int] = []
    while count := libraries.completed(f"{algorithm.name}/gradients/{len(counts)}"):
        counts.append(count)
    return counts


def of_no_job() -> dict[str, str]:
    """The environment of this peer without what its launcher has told it."""
    told = ("KUNGFU_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    return {name: text for name, text in os.environ.items() if not name.startswith(told)}


# -- Keras


def keras_version() -> tuple[int, int]:
    """The major and minor version of Keras. What the cases expect of versions before is said so."""
    return generations.packages()[0].version


def clips_each_gradient() -> bool:
    """Whether Keras clips gradients before it gathers them, as it does before 3.5: then each is
    exchanged."""
    return (3, 0) <= keras_version() < (3, 5)


def takes_single_steps() -> bool:
    """Whether `fit` makes an execution of each step, as with Keras before 3.7, if the last one of
    an epoch would not be a whole one."""
    return (3, 0) <= keras_version() < (3, 7)


def dense_model(dtype: str = "float64", *, regularizer: Any = None) -> Any:
    """A model with the same weights on every peer; `regularizer`: of the first layer's kernel."""
    tf.keras.utils.set_random_seed(11)
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((FEATURES,), dtype=dtype),
            layers.Dense(
                16,
                activation="relu",
                bias_initializer="ones",
                kernel_regularizer=regularizer,
                dtype=dtype,
            ),
            layers.Dense(16, activation="tanh", bias_initializer="ones", dtype=dtype),
            layers.Dense(1, bias_initializer="ones", dtype=dtype),
        ]
    )


def embedding_model() -> Any:
    """Its first layer's gradient is IndexedSlices."""
    tf.keras.utils.set_random_seed(11)
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((FEATURES,)),
            layers.Lambda(lambda x: tf.cast(tf.abs(x) * 3, tf.int32) % 5, output_shape=(6,)),
            layers.Embedding(5, 4),
            layers.Flatten(),
            layers.Dense(1, bias_initializer="ones"),
        ]
    )


def contrasting(y: Any, predicted: Any) -> Any:
    """A loss that compares the samples of a batch with each other."""
    spread = (predicted - tf.reduce_mean(predicted)) ** 2
    return tf.reduce_mean((predicted - y) ** 2) + tf.reduce_mean(spread)


def masked(y: Any, predicted: Any) -> Any:
    """A loss that divides by its own mask."""
    chosen = tf.cast(y > 0, predicted.dtype)
    return tf.reduce_sum(chosen * (predicted - y) ** 2) / (tf.reduce_sum(chosen) + 1)


class Recorder(tf.keras.callbacks.Callback):
    """Digests the state after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[int] = []
        self.states: list[int] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.weights.append(digest(values_of(self.model.trainable_variables)))
        self.states.append(digest(values_of(generations.shared_variables_of(self.model.optimizer))))


def fit(
    model: Any,
    optimizer: Any,
    dataset: tf.data.Dataset,
    epochs: int = EPOCHS,
    callbacks: Sequence[Any] = (),
    **options: Any,
) -> Run:
    """`model.fit` with the callback that every program has."""
    model.compile(optimizer, "mse", **options)
    before = values_of(model.trainable_variables) if model.built else []
    recorder = Recorder()
    callbacks = [kf.callbacks.BroadcastGlobalVariablesCallback(), *callbacks, recorder]
    model.fit(dataset, epochs=epochs, verbose=0, callbacks=callbacks)
    after = values_of(model.trainable_variables)
    return Run(before, after, recorder.weights, recorder.states)


def fit_single(
    model: Any, optimizer: Any, dataset: tf.data.Dataset, epochs: int = EPOCHS, **options: Any
) -> Run:
    """`model.fit` as a program without kungfu_tf has it."""
    model.compile(optimizer, "mse", **options)
    before = values_of(model.trainable_variables)
    on_one_peer(model, lambda: model.fit(dataset, epochs=epochs, verbose=0))
    return Run(before, values_of(model.trainable_variables), [], [])


def on_one_peer(model: Any, train: Callable[[], Any]) -> None:
    """Rank 0 trains; all have the model that comes of it. It costs the machine once, not n times.

    A model that has no variables yet is trained by each peer.
    """
    is_built = model.built
    if kf.is_root() or not is_built:
        train()
    if is_built:
        kf.initializer.broadcast_variables(model.variables)


def keras_optimizers(name: str) -> list[Callable[[], Any]]:
    """What makes an optimizer, of each family that the Keras of this process has."""
    families = [tf.keras.optimizers]
    if not is_keras_3():
        families.append(tf.keras.optimizers.legacy)
    make: dict[str, Callable[[Any], Any]] = {
        "sgd": lambda family: family.SGD(0.05),
        "momentum": lambda family: family.SGD(0.02, momentum=0.9),
        "adam": lambda family: family.Adam(0.01),
    }
    return [lambda family=family: make[name](family) for family in families]


def is_keras_3() -> bool:
    """Whether `tf.keras` is."""
    return any(
        p.generation == 3 and p.module.Model is tf.keras.Model for p in generations.packages()
    )


# -- GradientTape


def tape_loop(
    model: Any, optimizer: Any, dataset: tf.data.Dataset, make_tape: Callable[[], Any]
) -> Run:
    """A loop of one's own around a `tf.function`."""
    variables = model.trainable_variables

    @tf.function
    def step(x: Any, y: Any) -> None:
        with make_tape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    run = Run(values_of(variables), [], [], [])
    for x, y in steps(dataset):
        step(x, y)
        run.weights.append(digest(values_of(variables)))
        run.states.append(digest(values_of(generations.variables_of(optimizer))))
    run.after = values_of(variables)
    return run


def step_of(model: Any, optimizer: Any) -> Callable[[Any, Any], None]:
    """A step of a loop, which takes this peer's batch."""
    variables = model.trainable_variables

    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    return step


# -- tf.compat.v1

v1 = tf.compat.v1

V1_OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.05),
    "momentum": lambda: v1.train.MomentumOptimizer(0.02, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(0.01),
}


def v1_loss(x: Any, y: Any, use_resource: bool, seed: int = 11) -> Any:
    """The loss of a small network in the current graph."""
    with v1.variable_scope(f"net{len(v1.global_variables())}", use_resource=use_resource):
        for i, (rows, columns) in enumerate([(FEATURES, 16), (16, 16), (16, 1)]):
            kernel = v1.get_variable(
                *(f"kernel{i}", [rows, columns], tf.float64),
                initializer=v1.glorot_uniform_initializer(seed=seed + i, dtype=tf.float64),
            )
            bias = v1.get_variable(
                f"bias{i}", [columns], tf.float64, initializer=v1.ones_initializer(tf.float64)
            )
            x = (tf.nn.relu, tf.tanh, tf.identity)[i](x @ kernel + bias)
    return tf.reduce_mean(tf.square(x - y))


def minimize(optimizer: Any, loss: Any) -> Any:
    """The training operation, of an optimizer of `tf.compat.v1.train` or of legacy Keras."""
    if hasattr(optimizer, "get_updates"):
        return tf.group(*optimizer.get_updates(loss, v1.trainable_variables()))
    return optimizer.minimize(loss)


def session_loop(optimizer: Any, dataset: tf.data.Dataset, use_resource: bool) -> Run:
    """A TF1 program: a graph, a session, a feed."""
    batches = list(steps(dataset))
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float64, [None, FEATURES])
        y = v1.placeholder(tf.float64, [None, 1])
        train = minimize(optimizer, v1_loss(x, y, use_resource))
        weights = v1.trainable_variables()
        states = [v for v in v1.global_variables() if v not in weights]
        session.run(v1.global_variables_initializer())
        session.run(kf.initializer.BroadcastGlobalVariablesOp())
        run = Run(session.run(weights), [], [], [])
        for batch_x, batch_y in batches:
            session.run(train, {x: batch_x.numpy(), y: batch_y.numpy()})
            run.weights.append(digest(session.run(weights)))
            run.states.append(digest(session.run(states)))
        run.after = session.run(weights)
    return run
