"""`fit` where the peers' data differ in length: as one process on the samples of each step."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each, exhaustive
from support import operations_done

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [
    {
        "np": 3,
        "cases": [
            "uneven",
            "even_after_uneven",
            "uneven_after_a_batch",
            "the_same_data",
            "the_same_dataset",
            "statistics",
            "embedding",
            "generators",
            "losses_of_several_outputs",
            "a_callback_that_adds_to_the_logs",
            "a_tracker_of_the_programs_own",
            "arrays_and_an_unknown_length",
        ],
    },
    {"np": 4, "cases": ["two_have_none"]},
]
TOLERANCE = 1e-12
BATCH = 4
# In samples: 10, 7 and 1 batches, two of them with a smaller last one.
UNEVEN = [40, 27, 2]
NONE = [12, 0, 7, 0]

tf.keras.backend.set_floatx("float64")
keras = tf.keras


def parts(counts):
    """Each peer's samples."""
    x, y = training.samples(sum(counts))
    y = (y > 0).astype("float64")
    starts = np.cumsum([0, *counts])
    return [(x[a:b], y[a:b]) for a, b in itertools.pairwise(starts)]


def steps_of(peers):
    """What a single process trains on: in each step the batches of all peers together."""
    count = max(-(-len(x) // BATCH) for x, _ in peers)
    for step in range(count):
        rows = slice(BATCH * step, BATCH * step + BATCH)
        yield tuple(np.concatenate([part[i][rows] for part in peers]) for i in range(2))


def single_dataset(peers):
    spec = (tf.TensorSpec([None, training.FEATURES]), tf.TensorSpec([None, 1]))
    spec = tuple(tf.TensorSpec(s.shape, tf.float64) for s in spec)
    dataset = tf.data.Dataset.from_generator(lambda: steps_of(peers), output_signature=spec)
    count = len(list(steps_of(peers)))
    return dataset.apply(tf.data.experimental.assert_cardinality(count))


class Batches(keras.utils.PyDataset if hasattr(keras.utils, "PyDataset") else keras.utils.Sequence):
    """A peer's samples as Keras' own kind of data set."""

    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def __len__(self):
        return -(-len(self.x) // BATCH)

    def __getitem__(self, i):
        rows = slice(BATCH * i, BATCH * i + BATCH)
        return self.x[rows], self.y[rows]


def as_argument(kind, x, y):
    """The arguments of `fit`."""
    slices = tf.data.Dataset.from_tensor_slices((x, y))
    if kind == "arrays":
        return {"x": x, "y": y, "batch_size": BATCH}
    if kind == "tf.data":
        return {"x": slices.batch(BATCH)}
    if kind == "unknown length":
        return {"x": slices.filter(lambda x, y: True).batch(BATCH)}
    return {"x": Batches(x, y)}


def model_of(optimizer, *layers):
    keras.utils.set_random_seed(11)
    first = keras.layers.Input((training.FEATURES,))
    inside = layers or (keras.layers.Dense(8, activation="tanh"),)
    model = keras.Sequential([first, *inside, keras.layers.Dense(1, activation="sigmoid")])
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"])
    return model


def fitted(model, epochs=2, **arguments):
    """What training does: the history, and the weights before and after."""
    before = training.values_of(model.trainable_variables)
    history = model.fit(**arguments, epochs=epochs, shuffle=False, verbose=0).history
    return history, before, training.values_of(model.trainable_variables)


def check(run, run_alone):
    """The run of all peers is the same everywhere, and as what one process does: rank 0 asks it."""
    history, _, after = run
    assert kf.ops.consensus(np.int64(training.digest([*history.values(), *after])))
    if not kf.is_root():
        return
    expected, before, wanted = run_alone()
    for name, values in expected.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-12, err_msg=name)
    for start, got, want in zip(before, after, wanted, strict=True):
        assert np.linalg.norm(got - want) <= TOLERANCE * np.linalg.norm(want)
        assert np.linalg.norm(want - start) >= 0.01 * np.linalg.norm(want)


@each(kind=["arrays", "tf.data", "unknown length", "PyDataset"])
@exhaustive(kind=["unknown length", "PyDataset"])
def case_uneven(kind):
    """10, 7 and 1 batches, the last one ragged. Metrics, too, are those of the union."""
    peers = parts(UNEVEN)
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    run = fitted(model_of(optimizer), **as_argument(kind, *peers[kf.rank()]))
    assert training.completed(optimizer) == [20]
    plain = keras.optimizers.SGD(0.1, momentum=0.9)
    check(run, lambda: fitted(model_of(plain), x=single_dataset(peers)))


def case_generators():
    """Of Python, of one pass."""
    peers = parts(UNEVEN)
    x, y = peers[kf.rank()]
    batches = ((x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, len(x), BATCH))
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))
    run = fitted(model_of(optimizer), epochs=1, x=batches)
    plain = keras.optimizers.SGD(0.1)
    check(run, lambda: fitted(model_of(plain), epochs=1, x=single_dataset(peers)))


@each(kind=["arrays", "tf.data", "unknown length"])
@exhaustive(kind=["arrays"])
def case_two_have_none(kind):
    peers = parts(NONE)
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))
    run = fitted(model_of(optimizer), **as_argument(kind, *peers[kf.rank()]))
    assert training.completed(optimizer) == [6]
    plain = keras.optimizers.SGD(0.1)
    check(run, lambda: fitted(model_of(plain), x=single_dataset(peers)))


def case_even_after_uneven():
    """The same model goes on with other data; each `fit` counts samples if it has to."""
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))
    ours, alone = model_of(optimizer), model_of(keras.optimizers.SGD(0.1))
    for counts in ([8, 8, 8], UNEVEN, [8, 8, 8]):
        before = operations_done()
        run = fitted(ours, **as_argument("arrays", *parts(counts)[kf.rank()]))
        done = operations_done() - before
        data = single_dataset(parts(counts))
        check(run, lambda data=data: fitted(alone, x=data))
        if counts != UNEVEN:
            ours_alone = done
    assert done == ours_alone  # the step of even data does not ask for the number of samples


def case_uneven_after_a_batch():
    """What was made of the plain step is not used."""
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))
    ours, alone = model_of(optimizer), model_of(keras.optimizers.SGD(0.1))
    first = [part[:4] for part in parts([4, 4, 4])[kf.rank()]]
    ours.train_on_batch(*first)
    alone.train_on_batch(*[np.concatenate(p) for p in zip(*parts([4, 4, 4]), strict=True)])
    run = fitted(ours, **as_argument("arrays", *parts(UNEVEN)[kf.rank()]))
    check(run, lambda: fitted(alone, x=single_dataset(parts(UNEVEN))))


def case_statistics():
    """An empty batch leaves none in BatchNormalization, nor NaN anywhere."""
    normal = keras.layers.BatchNormalization(momentum=0.5)
    model = model_of(SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)), normal)
    history, _, _ = fitted(model, **as_argument("tf.data", *parts(UNEVEN)[kf.rank()]))
    assert np.isfinite(history["loss"]).all()
    values = training.values_of(model.weights)
    assert all(np.isfinite(v).all() for v in values)
    assert kf.ops.consensus(np.int64(training.digest(values)))


def case_embedding():
    """IndexedSlices of no rows."""
    peers = [(np.abs(x * 3).astype("int32") % 7, y) for x, y in parts(UNEVEN)]

    def model(optimizer):
        keras.utils.set_random_seed(3)
        layers = [keras.layers.Embedding(7, 3), keras.layers.Flatten(), keras.layers.Dense(1)]
        made = keras.Sequential([keras.layers.Input((training.FEATURES,), dtype="int32"), *layers])
        made.compile(optimizer, "mse")
        return made

    def dataset():
        spec = (
            tf.TensorSpec([None, training.FEATURES], tf.int32),
            tf.TensorSpec([None, 1], tf.float64),
        )
        batches = tf.data.Dataset.from_generator(lambda: steps_of(peers), output_signature=spec)
        return batches.apply(tf.data.experimental.assert_cardinality(10))

    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))
    run = fitted(model(optimizer), **as_argument("arrays", *peers[kf.rank()]))
    check(run, lambda: fitted(model(keras.optimizers.SGD(0.1)), x=dataset()))


def case_losses_of_several_outputs():
    """Each output's, in training and validation, is that of one process."""
    if (3, 0) <= training.keras_version() < (3, 5):
        raise Skip("Keras before 3.5 has no losses of outputs")
    peers = parts(UNEVEN)

    def both(dataset):
        return dataset.map(lambda x, y: (x, {"p": y, "q": 1 - y}))

    def run(optimizer, dataset, validation):
        keras.utils.set_random_seed(11)
        inputs = keras.layers.Input((training.FEATURES,))
        outputs = {name: keras.layers.Dense(1, name=name)(inputs) for name in ("p", "q")}
        model = keras.Model(inputs, outputs)
        model.compile(optimizer, {"p": "mse", "q": "mae"}, loss_weights={"p": 1.0, "q": 0.5})
        return fitted(model, x=both(dataset), validation_data=both(validation))

    mine, whole = peers[kf.rank()], tuple(map(np.concatenate, zip(*peers, strict=True)))
    slices = tf.data.Dataset.from_tensor_slices
    ours = run(
        SynchronousSGDOptimizer(keras.optimizers.SGD(0.05)),
        slices(mine).batch(BATCH),
        slices(mine).batch(BATCH),
    )
    assert {"p_loss", "q_loss", "val_p_loss", "val_q_loss"} <= set(ours[0])
    all_at_once = slices(whole).batch(len(whole[0]))
    check(ours, lambda: run(keras.optimizers.SGD(0.05), single_dataset(peers), all_at_once))


class Adds(keras.callbacks.Callback):
    """Puts a number of its own beside the metrics."""

    def on_train_batch_end(self, batch, logs=None):
        logs["of a callback"] = 1.0


def case_a_callback_that_adds_to_the_logs():
    """The metrics stay those of one process."""
    peers = parts(UNEVEN)

    def run(optimizer, dataset):
        keras.utils.set_random_seed(11)
        model = keras.Sequential([keras.layers.Input((training.FEATURES,)), keras.layers.Dense(1)])
        model.compile(optimizer, "mse", metrics=[keras.metrics.RootMeanSquaredError()])
        return fitted(model, x=dataset, callbacks=[Adds()])

    mine = tf.data.Dataset.from_tensor_slices(peers[kf.rank()]).batch(BATCH)
    ours = run(SynchronousSGDOptimizer(keras.optimizers.SGD(0.05)), mine)
    check(ours, lambda: run(keras.optimizers.SGD(0.05), single_dataset(peers)))


class Tracked(keras.Model):
    """Trains and reports in a way of its own."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1, kernel_initializer="zeros")
        self.tracker = keras.metrics.Mean(name="tracked")

    def call(self, x):
        return self.dense(x)

    @property
    def metrics(self):
        return [self.tracker]

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x) - y))
        variables = self.trainable_variables
        gradients = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        self.tracker.update_state(loss)
        return {"tracked": self.tracker.result()}


def case_a_tracker_of_the_programs_own():
    """A mean of the batches' losses counts each batch as one process does."""
    peers = parts(UNEVEN)

    def run(optimizer, **data):
        model = Tracked()
        model(np.zeros([1, training.FEATURES]))
        model.compile(optimizer)
        return fitted(model, **data)

    ours = SynchronousSGDOptimizer(keras.optimizers.SGD(0.05))
    check(
        run(ours, **as_argument("tf.data", *peers[kf.rank()])),
        lambda: run(keras.optimizers.SGD(0.05), x=single_dataset(peers)),
    )


@each(shared=[True, False], shuffle=[True, False])
@exhaustive(shared=[True])
@exhaustive(shuffle=[True])
def case_the_same_data(shared, shuffle):
    """One warning, which says how to shard; of arrays also if each peer shuffles them by itself."""
    x, y = training.samples(24)
    if not shared:
        x, y = x[kf.rank() :: 3], y[kf.rank() :: 3]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model_of(SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))).fit(
            x, y, 4, epochs=2, verbose=0, shuffle=shuffle
        )
    expect_told_of_shard(caught, shared)


@each(shared=[True, False])
def case_the_same_dataset(shared):
    """The first batch is looked at, and no other is held up by that."""
    x, y = training.samples(24)
    if not shared:
        x, y = x[kf.rank() :: 3], y[kf.rank() :: 3]
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(24, seed=1).batch(4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model_of(SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))).fit(
            dataset, epochs=2, verbose=0
        )
    expect_told_of_shard(caught, shared)


def expect_told_of_shard(caught, shared):
    told = [str(w.message) for w in caught if "kungfu_tf.data.shard" in str(w.message)]
    assert len(told) == (shared and kf.rank() == 0), told


def case_arrays_and_an_unknown_length():
    """Also where Keras 2 puts the batches of all epochs into the dataset of arrays."""
    x, y = parts(UNEVEN)[kf.rank()]
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).filter(lambda x, y: True).batch(BATCH)
    given = {"x": x, "y": y, "batch_size": BATCH} if kf.rank() == 1 else {"x": dataset}
    model = training.dense_model()
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.01))
    model.compile(optimizer, "mse")
    history = model.fit(**given, epochs=3, verbose=0).history
    assert len(history["loss"]) == 3
    assert training.completed(optimizer) == [3 * 10]
    assert kf.ops.consensus(training.digest(training.values_of(model.weights)))
