"""Peers with different numbers of batches, and of samples in them."""

from __future__ import annotations

import numpy as np
import sessions
import tensorflow as tf
import training
from harness import Skip, each, exhaustive
from support import operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf.data import empty
from kungfu_tf.data.even import agree
from kungfu_tf.exchange.mean_gradients import mean_gradients
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.replicas import sample_weights
from kungfu_tf.upstream import generations

JOBS = [
    {
        "np": 3,
        "cases": [
            "tape",
            "optimizer",
            "gathered_gradients_are_weighed_when_they_are_gathered",
            "a_function_within_the_step_is_weighed_anew_in_each",
            "of_what_is_not_there_nothing_counts",
            "batch_statistics_of_all_peers_count_no_stand_ins",
            "a_stand_in_leaves_no_trace",
            "loops_that_are_left_do_not_disturb_later_ones",
            "what_the_peers_know_decides",
            "a_wrong_number_of_batches_is_told",
        ],
    },
    {"np": 4, "cases": ["tape"]},
    {
        "np": 2,
        "env": {"KUNGFU_COLLECTIVE_TIMEOUT": "15"},
        "cases": [
            "a_session_with_a_collective_of_its_own",
            "batches_of_one_size_have_the_plain_mean",
            "a_peer_that_goes_on_alone_is_told",
        ],
    },
]
BATCH = 8
EPOCHS = 2
TOLERANCE = 1e-12
# Samples by rank: 10, 7 and 1 batches, the last ones smaller; and two peers without any.
SAMPLES = {2: [40, 40], 3: [75, 53, 2], 4: [24, 0, 27, 0]}

tf.keras.backend.set_floatx("float64")
optimizers = tf.keras.optimizers


def parts():
    """The samples of each rank."""
    counts = SAMPLES[kf.size()]
    x, y = training.samples(sum(counts))
    ends = np.cumsum(counts)[:-1]
    return list(zip(np.split(x, ends), np.split(y, ends), strict=True))


def steps_of_an_epoch():
    return -(-max(SAMPLES[kf.size()]) // BATCH)


def union():
    """The batches of one process: of each step, the samples that all peers have in it."""
    for step in range(steps_of_an_epoch()):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        x, y = (np.concatenate([part[i][rows] for part in parts()]) for i in range(2))
        yield len(x), (x, y)


def mine(length):
    """This peer's batches, whose number is known, or not."""
    x, y = parts()[kf.rank()]
    if length == "generator":
        spec = tuple(tf.TensorSpec([None, n], tf.float64) for n in (training.FEATURES, 1))
        starts = range(0, len(x), BATCH)
        return tf.data.Dataset.from_generator(
            lambda: ((x[i : i + BATCH], y[i : i + BATCH]) for i in starts), output_signature=spec
        )
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)


MODELS = {"dense": training.dense_model, "embedding": training.embedding_model}


def compiled(step):
    parts = [tf.TensorSpec([None, n], tf.float64) for n in (training.FEATURES, 1)]
    return tf.function(step, input_signature=[tf.TensorSpec([], tf.int64), *parts])


def train(model, batches, step, form=compiled):
    """What `step(samples, x, y)`, which changes the model, does to it in all epochs."""
    step = form(step)
    variables = model.trainable_variables
    run = training.Run(training.values_of(variables), [], [], [])
    for _ in range(EPOCHS):
        for samples, (x, y) in batches():
            step(samples, x, y)
            run.weights.append(training.digest(training.values_of(variables)))
    run.after = training.values_of(variables)
    return run


def step_of(model, optimizer, make_tape=lambda samples: tf.GradientTape()):
    def step(samples, x, y):
        with make_tape(samples) as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    return step


def counted(step):
    """The step, its gradients weighed by samples."""

    def counted_step(samples, x, y):
        with sample_weights.samples(samples):
            step(samples, x, y)

    return counted_step


def built(model, optimizer):
    """Both, ready for a step that creates no variables."""
    generations.build(optimizer, model.trainable_variables)
    return model, optimizer


def single(make_model, make_optimizer):
    model, optimizer = built(make_model(), make_optimizer())
    return train(model, union, step_of(model, optimizer))


def questions(length):
    """How often the pipelines ask for another batch."""
    return EPOCHS * (steps_of_an_epoch() + 1) if length == "generator" else 0


@each(model=["dense", "embedding"], length=["known", "generator"])
@exhaustive(model=["dense"], length=["generator"])
@exhaustive(model=["embedding"], length=["known"])
def case_tape(model, length):
    make_model = MODELS[model]
    expected = single(make_model, lambda: optimizers.SGD(0.05))
    before = operations_done()
    model, optimizer = built(make_model(), optimizers.SGD(0.05))
    dataset = kf.data.even(mine(length))

    def make_tape(samples):
        return kf.DistributedGradientTape(tf.GradientTape(), samples=samples)

    run = train(model, lambda: dataset, step_of(model, optimizer, make_tape))
    assert training.differences(run, expected, TOLERANCE) == []
    steps = EPOCHS * steps_of_an_epoch()
    assert len(run.weights) == steps
    # Slices travel as two operations, and both comparisons are one each.
    of_a_step = 1 + (1 if make_model is training.dense_model else 3)
    agreed = 1  # once, on which variables have gradients
    assert operations_done() - before == agreed + 1 + questions(length) + steps * of_a_step + 2


def case_optimizer():
    dataset = kf.data.even(mine("known"))
    for make in training.keras_optimizers("adam"):
        expected = single(training.dense_model, make)
        optimizer = SynchronousSGDOptimizer(make(), bucket_bytes=1200)
        model, _ = built(training.dense_model(), optimizer)
        before = libraries.completed("samples")
        run = train(model, lambda: dataset, counted(step_of(model, optimizer)))
        assert training.differences(run, expected, TOLERANCE) == []
        steps = EPOCHS * steps_of_an_epoch()
        assert libraries.completed("samples") - before == steps
        assert training.completed(optimizer) == [steps] * 3


def case_gathered_gradients_are_weighed_when_they_are_gathered():
    """The steps of one update count alike, as they do in one process."""
    if not training.is_keras_3():  # Keras 2 cannot accumulate
        raise Skip("Keras 2 cannot accumulate")

    def make():
        return optimizers.Adam(0.02, gradient_accumulation_steps=5, clipnorm=0.1)

    expected = single(training.dense_model, make)
    model, optimizer = built(training.dense_model(), SynchronousSGDOptimizer(make()))
    dataset = kf.data.even(mine("known"))
    run = train(model, lambda: dataset, counted(step_of(model, optimizer)))
    assert training.differences(run, expected, TOLERANCE) == []
    steps_of_an_exchange = 1 if training.clips_each_gradient() else 5
    assert training.completed(optimizer) == [EPOCHS * steps_of_an_epoch() // steps_of_an_exchange]


def case_batches_of_one_size_have_the_plain_mean():
    """Bit for bit (of two peers: the order of more is another for another optimizer)."""
    data = training.samples(4 * BATCH * kf.size())
    dataset = kf.data.shard(tf.data.Dataset.from_tensor_slices(data)).batch(BATCH)
    dataset = kf.data.even(dataset)
    runs, counts = [], []
    for wrapper in (lambda step: step, counted):
        optimizer = SynchronousSGDOptimizer(optimizers.Adam(0.01))
        model, _ = built(training.dense_model(), optimizer)
        before = operations_done()
        runs.append(train(model, lambda: dataset, wrapper(step_of(model, optimizer))))
        counts.append(operations_done() - before)
    assert runs[0].weights == runs[1].weights
    steps, agreed = 4 * EPOCHS, 1  # once, on which variables have gradients
    assert counts == [agreed + steps, agreed + 2 * steps]


def case_a_function_within_the_step_is_weighed_anew_in_each():
    """It is traced once, in the first step."""
    expected = single(training.dense_model, lambda: optimizers.SGD(0.05))
    model, optimizer = built(training.dense_model(), SynchronousSGDOptimizer(optimizers.SGD(0.05)))
    dataset = kf.data.even(mine("known"))
    step = counted(compiled(step_of(model, optimizer)))
    run = train(model, lambda: dataset, step, form=lambda step: step)
    assert training.differences(run, expected, TOLERANCE) == []


@each(dtype=["float16", "bfloat16", "float32", "float64", "complex64"])
def case_of_what_is_not_there_nothing_counts(dtype):
    """Neither its NaN; and the sum of nothing is nothing."""
    rank = kf.rank()
    counts, values = [3, 1, 0], [1.0, 2.0, np.nan]
    for n, total in ((counts[rank], 4), (0, 0)):
        variables = [tf.Variable(tf.zeros([2], dtype)), tf.Variable(tf.zeros([4, 2], dtype))]
        dense = tf.cast(tf.fill([2], values[rank]), dtype)
        slices = tf.IndexedSlices(dense[None][:n], tf.constant([rank])[:n], tf.constant([4, 2]))
        with sample_weights.samples(tf.constant(n)):
            means = mean_gradients([dense, slices], variables)
        mean = (3 * 1.0 + 1 * 2.0) / 4 if total else 0.0
        np.testing.assert_array_equal(tf.cast(means[0], tf.complex64), [mean, mean])
        rows = tf.cast(tf.convert_to_tensor(means[1]), tf.complex64)
        by_rank = [3 * 1.0 / 4, 1 * 2.0 / 4, 0.0, 0.0] if total else [0.0] * 4
        np.testing.assert_allclose(rows, np.transpose([by_rank] * 2), rtol=1e-2)


def case_batch_statistics_of_all_peers_count_no_stand_ins():
    def model():
        tf.keras.utils.set_random_seed(11)
        layers = tf.keras.layers
        normalization = layers.BatchNormalization()
        top = layers.Dense(1, bias_initializer="ones")
        first = layers.Dense(4, "tanh", bias_initializer="ones")
        return tf.keras.Sequential([layers.Input((training.FEATURES,)), first, normalization, top])

    def after(the_model, batches, wrapper, optimizer):
        built(the_model, optimizer)
        run = train(the_model, batches, wrapper(step_of(the_model, optimizer)))
        run.before += moving
        run.after += training.values_of(the_model.non_trainable_variables)
        return run

    moving = training.values_of(model().non_trainable_variables)
    expected = after(model(), union, lambda step: step, optimizers.SGD(0.05))
    dataset = kf.data.even(mine("known"))
    optimizer = SynchronousSGDOptimizer(optimizers.SGD(0.05))
    run = after(kf.layers.synchronize(model()), lambda: dataset, counted, optimizer)
    assert training.differences(run, expected, TOLERANCE) == []


def normalising_model():
    tf.keras.utils.set_random_seed(11)
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((training.FEATURES,)),
            layers.Reshape((training.FEATURES, 1)),
            layers.Conv1D(4, 3),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    _, optimizer = built(model, SynchronousSGDOptimizer(optimizers.SGD(0.05)))
    model.compile(optimizer, "mse", metrics=["mae", tf.keras.metrics.RootMeanSquaredError()])
    return model


@each(mode=["function", "eager"])
def case_a_stand_in_leaves_no_trace(mode):
    model = normalising_model()

    def step(samples, batch):
        with sample_weights.samples(samples):
            return empty.step_on(model, samples, lambda: model.train_step(batch))

    real = 2 - kf.rank()
    dataset = tf.data.Dataset.from_tensor_slices(training.samples(2 * BATCH)).batch(BATCH)
    run = tf.function(step, reduce_retracing=True) if mode == "function" else step
    seen = [training.values_of(model.non_trainable_variables[:2])]
    logs = [{}]
    for samples, batch in kf.data.even(dataset.take(real)):
        logs.append({name: float(value) for name, value in run(samples, batch).items()})
        seen.append(training.values_of(model.non_trainable_variables[:2]))
    for number in (1, 2):
        unchanged = all(map(np.array_equal, seen[number], seen[number - 1]))
        assert unchanged == (number > real), (number, seen)
    if real < 2:
        assert set(logs[2].values()) == (set(logs[1].values()) if real else {0.0}), logs
    digest = training.digest(training.values_of(model.trainable_variables))
    assert kf.ops.consensus(np.int64(digest))


def case_loops_that_are_left_do_not_disturb_later_ones():
    dataset = kf.data.even(mine("generator"))
    for left_after in (1, 3, 2):
        for step, _ in enumerate(dataset, start=1):
            if step == left_after:
                break
    lengths = [int(samples) for samples, _ in dataset]
    assert sum(lengths) == SAMPLES[3][kf.rank()]
    assert len(lengths) == steps_of_an_epoch()


def case_a_peer_that_goes_on_alone_is_told():
    batches = iter(kf.data.even(mine("generator")))
    next(batches)
    if kf.rank() == 1:
        text = raised_by(tf.errors.OpError, list, batches)
        assert "/more/0'" in text and "rank 0" in text, text


def case_what_the_peers_know_decides():
    rank = kf.rank()
    numbers = tf.data.Dataset.range(24)
    alike, ragged = numbers.batch(8, drop_remainder=True), numbers.batch(8)
    uneven = alike.take(3 - rank)
    unknown = alike.filter(lambda x: True) if rank == 1 else alike

    assert agree(alike).is_even
    assert agree(ragged, batch_size=8, samples=24).is_even
    assert not agree(ragged).is_even
    assert not agree(ragged, batch_size=8 + rank, samples=24).is_even
    assert not agree(uneven).is_even
    assert [int(samples) for samples, _ in kf.data.even(ragged)] == [8, 8, 8]
    assert agree(uneven).batches == (3, 2, 1)
    assert agree(unknown).length == tf.data.UNKNOWN_CARDINALITY
    assert agree(unknown, cardinality=3).length == 3
    # Whose data never end never waits for anybody.
    endless = kf.data.even(alike.repeat() if rank == 0 else uneven)
    assert endless.cardinality() == tf.data.INFINITE_CARDINALITY
    assert len(list(endless.take(7))) == 7


def case_a_wrong_number_of_batches_is_told():
    claimed = 4 if kf.rank() == 0 else 3
    dataset = kf.data.even(mine("generator").take(3), cardinality=claimed)
    if kf.rank() == 0:
        assert "4" in raised_by(tf.errors.OpError, list, dataset)


def case_a_session_with_a_collective_of_its_own():
    """In the step that ends, only the peer that has data issues it: later ones are in step."""
    batches = sessions.batches_of([3, 2][kf.rank()], kf.rank())
    network = sessions.Network(batches, sessions.distributed())
    with network.graph.as_default(), tf.compat.v1.Session() as session:
        mean = kf.ops.all_reduce(network.loss, op="mean", name="loss")
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(3):
            session.run(network.iterator.initializer)
            for _ in range(2):
                session.run([network.train, mean])
            raised_by(tf.errors.OutOfRangeError, session.run, [network.train, mean])
        values = network.values(session)
    sessions.assert_equal(values)
