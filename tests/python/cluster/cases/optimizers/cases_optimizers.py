"""Options of Keras and of TensorFlow around a distributed optimizer."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf
import training
from harness import each, exhaustive

import kungfu_tf as kf
from kungfu_tf import errors
from kungfu_tf.exchange.mean_gradients import mean_gradients
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import AdaptiveSGDOptimizer, SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 2}]
TOLERANCE = 1e-12

tf.keras.backend.set_floatx("float64")
optimizers = tf.keras.optimizers


def assert_equal_to_single(
    make_model, make_optimizer, epochs=training.EPOCHS, micro_steps=1, **options
):
    """Of `model.fit` with these options."""
    data = training.epoch()
    single = training.fit_single(
        make_model(), make_optimizer(), training.whole(data), epochs, **options
    )
    optimizer = SynchronousSGDOptimizer(make_optimizer())
    run = training.fit(make_model(), optimizer, training.mine(data), epochs, **options)
    assert training.differences(run, single, TOLERANCE) == []
    updates = epochs * training.STEPS_PER_EPOCH // micro_steps
    assert set(training.completed(optimizer)) == {updates}


@each(how=["run_eagerly", "steps_per_execution"])
@exhaustive(how=["steps_per_execution"])
def case_fit(how):
    options = {"run_eagerly": True} if how == "run_eagerly" else {"steps_per_execution": 4}
    assert_equal_to_single(training.dense_model, lambda: optimizers.SGD(0.1), epochs=2, **options)


@each(clipping=["clipnorm", "global_clipnorm", "clipvalue"])
@exhaustive(clipping=["global_clipnorm", "clipvalue"])
def case_clipping_comes_after_the_mean(clipping):
    """The norm of the mean is not the mean of the norms."""
    assert_equal_to_single(
        training.dense_model, lambda: optimizers.SGD(0.5, **{clipping: 0.1}), steps_per_execution=5
    )


def case_weight_decay():
    assert_equal_to_single(
        training.dense_model,
        lambda: optimizers.Adam(0.01, weight_decay=0.01),
        steps_per_execution=5,
    )


def case_accumulated_gradients_travel_once_per_update():
    if training.is_keras_3():  # Keras 2 cannot accumulate
        assert_equal_to_single(
            training.dense_model,
            lambda: optimizers.Adam(0.02, gradient_accumulation_steps=5, clipnorm=0.1),
            micro_steps=1 if training.clips_each_gradient() else 5,
        )


@each(name=["sgd", "momentum", "adam"])
@exhaustive(name=["adam"])
def case_sparse_gradients(name):
    for make in training.keras_optimizers(name):
        assert_equal_to_single(training.embedding_model, make)


@each(rows=[3, 400], form=["eager", "function"])
def case_rows_of_a_table(rows, form):
    """Each travels once; where most are touched the whole table does. Who has none takes part."""
    random = np.random.default_rng(kf.rank())
    indices = np.concatenate([np.arange(3), random.integers(0, rows, 5)])
    indices = indices if kf.rank() or rows == 3 else indices[:0]
    values = random.normal(size=(len(indices), 2))
    table = np.zeros((rows, 2))
    np.add.at(table, indices, values)
    name = f"table/{rows}/{form}"

    def mean(values, indices):
        slices = tf.IndexedSlices(values, indices, tf.constant([rows, 2]))
        [found] = mean_gradients([slices], [tf.zeros([rows, 2])], name=name, sums_rows=True)
        return found

    mean = tf.function(mean) if form == "function" else mean
    found = mean(tf.constant(values), tf.constant(indices))
    np.testing.assert_allclose(
        tf.convert_to_tensor(found), kf.ops.all_reduce(table, op="mean"), rtol=1e-12, atol=1e-14
    )
    everywhere = np.unique(kf.ops.all_gather(indices, concat=True))
    assert sorted(found.indices.numpy()) == everywhere.tolist()
    done = {part for part in ("dense", "values") if libraries.completed(f"{name}/0/{part}")}
    assert done == ({"dense"} if rows == 3 else {"values"})


@each(rows=[4, 300], method=["synchronous", "adaptive"])
def case_rows_of_a_table_in_a_graph(rows, method):
    """Of TF1, with an optimizer that treats each touched row as one."""
    v1 = tf.compat.v1
    random = np.random.default_rng(5)
    steps = [random.integers(0, rows, size=(kf.size(), 6)) for _ in range(5)]

    def trained(optimizer, batches):
        with tf.Graph().as_default(), v1.Session() as session:
            table = v1.get_variable("table", [rows, 3], tf.float64, v1.ones_initializer())
            places = v1.placeholder(tf.int64, [None])
            loss = tf.reduce_mean(
                tf.square(tf.gather(table, places) - tf.constant([0.1, 0.2, 3], tf.float64))
            )
            train = optimizer.minimize(loss, v1.train.get_or_create_global_step())
            session.run(v1.global_variables_initializer())
            for batch in batches:
                session.run(train, {places: batch})
            return session.run(table)

    make = functools.partial(v1.train.AdamOptimizer, 0.05)
    wrap = {
        "synchronous": SynchronousSGDOptimizer,
        "adaptive": functools.partial(AdaptiveSGDOptimizer, change_step=0),
    }
    optimizer = wrap[method](make())
    ours = trained(optimizer, [step[kf.rank()] for step in steps])
    single = trained(make(), [step.reshape(-1) for step in steps])
    assert np.linalg.norm(ours - single) <= 1e-12 * np.linalg.norm(single)
    name = f"{optimizer.kungfu_algorithm.name}/gradients/0"
    done = [libraries.completed(f"{name}/{part}") for part in ("dense", "values")]
    is_most = [sum(len(np.unique(mine)) for mine in step) >= 2 * rows for step in steps]
    assert done == [sum(is_most), len(steps) - sum(is_most)], done


class TwoOptimizers(tf.keras.Model):
    """Each trains a layer of its own, in one step."""

    def __init__(self, optimizers):
        super().__init__()
        tf.keras.utils.set_random_seed(11)
        self.hidden = tf.keras.layers.Dense(8, "tanh", bias_initializer="ones")
        self.last = tf.keras.layers.Dense(1, bias_initializer="ones")
        self.first_optimizer, self.last_optimizer = optimizers
        self(tf.zeros([1, training.FEATURES], tf.float64))

    def call(self, x, training=False):
        return self.last(self.hidden(x))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        for layer, optimizer in (
            (self.hidden, self.first_optimizer),
            (self.last, self.last_optimizer),
        ):
            variables = layer.trainable_variables
            gradients = tape.gradient(loss, variables)
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return {"loss": loss}


def case_two_optimizers_in_one_step():
    data = training.epoch()
    make = [lambda: optimizers.SGD(0.05, momentum=0.9), lambda: optimizers.Adam(0.01)]
    single = training.fit_single(
        TwoOptimizers([m() for m in make]), "rmsprop", training.whole(data)
    )
    wrapped = [SynchronousSGDOptimizer(m()) for m in make]
    run = training.fit(TwoOptimizers(wrapped), "rmsprop", training.mine(data))
    assert training.differences(run, single, TOLERANCE) == []
    assert [training.completed(w) for w in wrapped] == [[training.STEPS]] * 2


def case_a_peer_may_build_and_trace_more_than_others():
    """Names do not depend on what else a peer has done."""
    data = training.epoch()
    single = training.fit_single(training.dense_model(), optimizers.SGD(0.05), training.whole(data))
    if kf.rank() == 0:
        extra = training.dense_model()
        SynchronousSGDOptimizer(optimizers.SGD(0.1))
        extra.compile(optimizers.SGD(0.1), "mse")
        extra.fit(*training.samples(64), verbose=0)

    class TraceAgain(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1 and kf.rank() == 0:
                self.model.make_train_function(force=True)

    optimizer = SynchronousSGDOptimizer(optimizers.SGD(0.05))
    mine = training.mine(data)
    run = training.fit(training.dense_model(), optimizer, mine, callbacks=[TraceAgain()])
    assert training.differences(run, single, TOLERANCE) == []


def case_a_tape_traced_once_more_on_one_peer():
    @tf.function
    def gradient(x):
        with kf.DistributedGradientTape(tf.GradientTape()) as tape:
            tape.watch(x)
            loss = tf.reduce_sum(x * x) * (kf.rank() + 1)
        return tape.gradient(loss, x)

    if kf.rank() == 0:
        gradient.get_concrete_function(tf.TensorSpec([None], tf.float64))
    for _ in range(2):
        np.testing.assert_array_equal(gradient(tf.constant([1.0, 2.0], tf.float64)), [3.0, 6.0])


def case_tape():
    """Persistent, nested, eager, with nothing to derive; two in one function."""
    x, y, z = (tf.Variable([float(i)], dtype=tf.float64) for i in (1, 2, 3))
    scale = float(kf.rank() + 1)  # 1.5 on average

    def gradients():
        with kf.DistributedGradientTape(tf.GradientTape(persistent=True)) as tape:
            first, second = scale * x * y, scale * x * x
        nested = tape.gradient(first, {"x": x, "others": (y, z)})
        return nested, tape.gradient(second, x), tape.gradient(second, [x, y])

    for run in (gradients, tf.function(gradients)):
        nested, alone, listed = run()
        assert set(nested) == {"x", "others"} and nested["others"][1] is None
        np.testing.assert_array_equal([nested["x"], nested["others"][0]], [[3.0], [1.5]])
        np.testing.assert_array_equal([alone, listed[0]], [[3.0], [3.0]])
        assert listed[1] is None


def case_tape_of_slices():
    table = tf.Variable(np.zeros([4, 2]))
    with kf.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_sum(tf.gather(table, [kf.rank(), 3]))
    slices = tape.gradient(loss, table)
    assert isinstance(slices, tf.IndexedSlices)
    dense = tf.convert_to_tensor(slices)
    np.testing.assert_array_equal(dense, [[0.5, 0.5], [0.5, 0.5], [0, 0], [1, 1]])


@each(wrapped=["outside", "inside"])
def case_loss_scale_all_peers_skip_a_step_or_none_does(wrapped):
    """One peer overflows in one step; nobody waits for anybody."""
    losses = optimizers if training.is_keras_3() else tf.keras.mixed_precision
    for make in training.keras_optimizers("momentum"):
        plain = make()
        if wrapped == "inside":
            optimizer = losses.LossScaleOptimizer(SynchronousSGDOptimizer(plain))
        else:
            optimizer = SynchronousSGDOptimizer(losses.LossScaleOptimizer(plain))
        variable = tf.keras.Variable([1.0]) if training.is_keras_3() else tf.Variable([1.0])
        step = training_step(optimizer, variable)
        step(tf.constant([1.0]))
        before = training.values_of([variable])
        step(tf.constant([np.inf if kf.rank() == 1 else 1.0]))
        assert training.values_of([variable]) == before, "the step was not skipped"
        step(tf.constant([1.0]))
        assert training.values_of([variable]) < before
        digest = training.digest(training.values_of([variable, *_state(optimizer)]))
        assert kf.ops.consensus(np.int64(digest))
        assert training.completed(optimizer) == [3]


def training_step(optimizer, variable):
    @tf.function
    def step(gradient):
        optimizer.apply_gradients([(gradient, variable)])

    return step


def _state(optimizer):
    return [v for part in generations.parts_of(optimizer) for v in generations.variables_of(part)]


def case_peers_at_different_steps_are_told():
    optimizer = SynchronousSGDOptimizer(optimizers.SGD(0.1))
    variable = training.dense_model().trainable_variables[0]
    optimizer.build([variable])
    optimizer.iterations.assign(5 * kf.rank())
    try:
        optimizer.apply_gradients([(tf.zeros(variable.shape, variable.dtype), variable)])
    except tf.errors.InvalidArgumentError as error:
        assert "step" in str(error), error
    else:
        raise AssertionError("not noticed")


def case_compilation_by_xla_is_refused():
    model = training.dense_model()
    model.compile(SynchronousSGDOptimizer(optimizers.SGD(0.1)), "mse", jit_compile=True)
    try:
        model.fit(*training.samples(64), verbose=0)
    except errors.UnimplementedError as error:
        assert "jit_compile=False" in str(error), error
    else:
        raise AssertionError("not refused")
