"""Equal before the first step; seen to be equal, or not, afterwards."""

from __future__ import annotations

import re
import tempfile
import warnings

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each, exhaustive

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}]
TOLERANCE = 1e-12

tf.keras.backend.set_floatx("float64")
layers, optimizers, v1 = tf.keras.layers, tf.keras.optimizers, tf.compat.v1


def assert_equal_on_all_peers(values):
    assert kf.ops.consensus(np.int64(training.digest(values)))


@each(how=["eager", "function"], root=[0, 2])
def case_broadcast_variables(how, root):
    """Of any dtype, shape and root."""
    shapes = [("float64", [3, 2]), ("float16", [5]), ("int64", []), ("bool", [2]), ("float64", [0])]
    variables = [tf.Variable(tf.cast(tf.fill(shape, kf.rank()), dtype)) for dtype, shape in shapes]
    if how == "eager":
        assert kf.initializer.broadcast_variables(variables, root=root) is None
    else:
        tf.function(lambda: kf.initializer.broadcast_variables(variables, root=root))()
    for variable, (dtype, shape) in zip(variables, shapes, strict=True):
        np.testing.assert_array_equal(variable, np.full(shape, root).astype(dtype))


def case_broadcast_of_a_keras_model():
    tf.keras.utils.set_random_seed(kf.rank())
    model = tf.keras.Sequential([layers.Input((4,)), layers.Dense(3), layers.BatchNormalization()])
    mine = training.values_of(model.weights)
    kf.initializer.broadcast_variables(model.weights, root=1)
    assert_equal_on_all_peers(training.values_of(model.weights))
    same = training.digest(mine) == training.digest(training.values_of(model.weights))
    assert same == (kf.rank() == 1)


@each(variables=["resource", "ref"])
def case_broadcast_global_variables_op(variables):
    """Slots included."""
    with tf.Graph().as_default(), v1.Session() as session:
        loss = training.v1_loss(
            *(tf.ones([2, training.FEATURES], tf.float64), tf.ones([2, 1], tf.float64)),
            use_resource=variables == "resource",
            seed=kf.rank(),
        )
        train = v1.train.AdamOptimizer(0.1).minimize(loss)  # not distributed
        session.run(v1.global_variables_initializer())
        for _ in range(kf.rank() + 1):
            session.run(train)
        before = session.run(v1.global_variables())
        assert len(before) == 6 + 2 * 6 + 2
        session.run(kf.initializer.BroadcastGlobalVariablesOp())
        after = session.run(v1.global_variables())
    assert_equal_on_all_peers(after)
    assert (training.digest(before) == training.digest(after)) == (kf.rank() == 0)


def case_broadcast_global_variables_op_is_for_graphs():
    try:
        kf.initializer.BroadcastGlobalVariablesOp()
    except RuntimeError as error:
        assert "broadcast_variables" in str(error)
    else:
        raise AssertionError("not refused")


def train_alone(model, optimizer):
    """As many steps as this peer's rank + 1: weights, slots and iterations differ."""
    model.compile(optimizer, "mse")
    x, y = training.samples(32 * (kf.rank() + 1))
    model.fit(x + kf.rank(), y, batch_size=32, verbose=0)


def case_callback_starts_from_rank_0s_weights_and_slots():
    """As if all peers had rank 0's past: its slots and iterations count in Adam's next step."""
    for make in training.keras_optimizers("adam"):
        single = training.dense_model()
        plain = make()
        single.compile(plain, "mse")
        x, y = training.samples(32)
        single.fit(x, y, batch_size=32, verbose=0)  # what rank 0 does in train_alone
        data = training.epoch()
        expected = training.fit_single(single, plain, training.whole(data), epochs=1)

        model, optimizer = training.dense_model(), make()
        train_alone(model, optimizer)
        optimizer = SynchronousSGDOptimizer(optimizer)  # keeps its state
        run = training.fit(model, optimizer, training.mine(data), epochs=1)
        assert training.differences(run, expected, TOLERANCE) == []
        assert int(generations.native(optimizer.iterations)) == 1 + training.STEPS_PER_EPOCH


class Subclassed(tf.keras.Model):
    """Has no variables before its first batch."""

    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(8, activation="tanh", bias_initializer="ones")
        self.last = layers.Dense(1, bias_initializer="ones")

    def call(self, x, training=False):
        return self.last(self.hidden(x))


class OwnStep(Subclassed):
    """Averages its gradients by a tape, with a plain optimizer."""

    distributed = True

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        if self.distributed:
            tape = kf.DistributedGradientTape(tape)
        variables = self.trainable_variables
        gradients = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return {"loss": loss}


class TwoOptimizers(tf.keras.Model):
    """Each of two layers is trained by one of its own."""

    def compile(self, *own):
        super().compile()
        self.own = own

    def train_step(self, data):
        x, y = data
        for optimizer, layer in zip(self.own, self.layers[1:], strict=True):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
            gradients = tape.gradient(loss, layer.trainable_weights)
            optimizer.apply_gradients(zip(gradients, layer.trainable_weights, strict=True))
        return {"loss": loss}


def case_optimizers_are_built_for_what_they_train():
    """Two of a model that is built, as in one process."""

    def trained(wrap):
        x = layers.Input((4,))
        model = TwoOptimizers(x, layers.Dense(1)(layers.Dense(3)(x)))
        model.compile(*[wrap(optimizers.Adam(0.1)) for _ in range(2)])
        model.fit(np.ones((8, 4)), np.ones((8, 1)), batch_size=4, verbose=0)
        return [[v.shape for v in generations.variables_of(o)] for o in model.own]

    on_all = trained(SynchronousSGDOptimizer)
    single = trained(lambda optimizer: optimizer)
    assert on_all == single, on_all


def make_unbuilt(kind):
    if kind == "sequential":
        hidden = layers.Dense(8, activation="tanh", bias_initializer="ones")
        return tf.keras.Sequential([hidden, layers.Dense(1, bias_initializer="ones")])
    return {"subclassed": Subclassed, "own train_step": OwnStep}[kind]()


@each(
    kind=["sequential", "subclassed", "own train_step"],
    how=["function", "run_eagerly", "steps_per_execution"],
)
@exhaustive(kind=["sequential"], how=["steps_per_execution"])
@exhaustive(kind=["subclassed"], how=["run_eagerly"])
@exhaustive(kind=["own train_step"], how=["function"])
def case_unbuilt_models_start_equal_and_lose_no_batch(kind, how):
    """Every peer would build another one; what they train is rank 0's, from the first batch on."""
    options = {
        "run_eagerly": {"run_eagerly": True},
        "steps_per_execution": {"steps_per_execution": 3},
    }
    data = training.epoch()
    tf.keras.utils.set_random_seed(0)
    single = make_unbuilt(kind)
    single.distributed = False
    single.compile(optimizers.SGD(0.1), "mse")
    single(tf.zeros([1, training.FEATURES], tf.float64))
    start = training.values_of(single.trainable_variables)
    training.on_one_peer(single, lambda: single.fit(training.whole(data), epochs=1, verbose=0))

    tf.keras.utils.set_random_seed(kf.rank())
    optimizer = optimizers.SGD(0.1)
    if kind != "own train_step":
        optimizer = SynchronousSGDOptimizer(optimizer)
    model = make_unbuilt(kind)
    run = training.fit(model, optimizer, training.mine(data), epochs=1, **options.get(how, {}))
    run.before = start
    expected = training.Run(start, training.values_of(single.trainable_variables), [], [])
    assert training.differences(run, expected, TOLERANCE) == []


def divergence_of(train):
    """The message of the error that every peer must raise."""
    try:
        train()
    except kf.errors.DivergenceError as error:
        return str(error)
    raise AssertionError("not noticed")


def on_ranks_1_and_2():
    return f"on rank 1 ({peer.name_of(1)}) and rank 2 ({peer.name_of(2)})"


class TakesBack(tf.keras.Model):
    """Its step changes a weight by what this peer has computed for itself, and takes that back."""

    def train_step(self, data):
        x, y = data
        (weight, *_) = weights = self.trainable_variables
        own = 0.1 * (kf.rank() + 1)
        weight.assign_add(own * tf.ones_like(weight))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        gradients = tape.gradient(loss, weights)
        weight.assign_sub(own * tf.ones_like(weight))
        self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {"own": loss}


@each(repairs=[False, True])
def case_differences_of_rounding_are_measured_and_repaired_if_that_is_wanted(repairs):
    tf.keras.utils.set_random_seed(1)
    inputs = tf.keras.layers.Input((training.FEATURES,))
    model = TakesBack(inputs, tf.keras.layers.Dense(3)(inputs))
    model.compile(SynchronousSGDOptimizer(optimizers.SGD(0.01)))
    callback = kf.callbacks.BroadcastGlobalVariablesCallback(repairs_rounding=repairs)
    data = training.mine(training.epoch())

    def train(*more):
        model.fit(data, epochs=2, verbose=0, callbacks=[callback, *more])

    if repairs:
        train()
        assert kf.ops.consensus(generations.native(model.layers[-1].kernel))
        message = divergence_of(lambda: train(AddsRank()))
        assert "differences of rounding" not in message and "by 1 where values" in message, message
    else:
        message = divergence_of(train)
        assert "differences of rounding" in message and "repairs_rounding=True" in message
        assert re.search(r"by \d(\.\d)?e-1\d where values go up to 0\.\d", message), message


class AddsRank(tf.keras.callbacks.Callback):
    def on_train_end(self, logs=None):
        kernel = generations.native(self.model.layers[-1].kernel)
        kernel.assign_add(tf.cast(kf.rank() == 1, kernel.dtype) * tf.ones_like(kernel))


def case_weights_that_drift_apart_are_seen_at_the_end_of_the_epoch():
    class Tamper(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if kf.rank() == 1 and batch == 3:
                bias = generations.native(self.model.layers[1].bias)
                bias.assign_add(tf.ones_like(bias) * 1e-12)

    def train(check_every):
        model = training.dense_model()
        model.compile(SynchronousSGDOptimizer(optimizers.SGD(0.0)), "mse")
        callback = kf.callbacks.BroadcastGlobalVariablesCallback(check_every=check_every)
        data = training.mine(training.epoch())
        model.fit(data, epochs=2, verbose=0, callbacks=[callback, Tamper()])

    message = divergence_of(lambda: train(check_every=1))
    assert message.startswith("1 of "), message
    assert "at the end of epoch 1" in message and "'s" in message
    where = f"on rank 1 ({peer.name_of(1)}), by 1e-12 where values go up to 1. So small are"
    assert f"bias' {where}" in message or f"bias:0' {where}" in message, message
    assert "at the end of epoch 2" in divergence_of(lambda: train(check_every=2))
    train(check_every=None)


def case_a_train_step_that_forgets_to_average_is_seen_after_the_first_step():
    def train():
        tf.keras.utils.set_random_seed(kf.rank())
        model = OwnStep()
        model.distributed = False
        training.fit(model, optimizers.SGD(0.1), training.mine(training.epoch()))

    message = divergence_of(train)
    assert "after the first step" in message and on_ranks_1_and_2() in message, message


def case_an_optimizer_that_is_not_wrapped_is_warned_of_once():
    model = training.dense_model()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        training.fit(model, optimizers.SGD(0.1), training.mine(training.epoch()), epochs=2)
    found = [w for w in caught if "SynchronousSGDOptimizer" in str(w.message)]
    assert len(found) == (1 if kf.rank() == 0 else 0), [str(w.message) for w in caught]


def case_dropout_differs_between_peers():
    """Keras 3: each peer's seed generators follow from the common seed and the rank."""
    if not training.is_keras_3():
        raise Skip("Keras 2 draws from a global generator that no model has")
    states = []
    for _ in range(2):
        tf.keras.utils.set_random_seed(5)
        model = tf.keras.Sequential(
            [layers.Input((training.FEATURES,)), layers.Dropout(0.5), layers.Dense(1)]
        )
        start = model.layers[0].seed_generator.state.numpy().astype(np.int64)
        optimizer = SynchronousSGDOptimizer(optimizers.SGD(0.1))
        run = training.fit(model, optimizer, training.mine(training.epoch()), epochs=2)
        assert kf.ops.consensus(np.array(run.weights))
        states.append(model.layers[0].seed_generator.state.numpy().astype(np.int64))
    np.testing.assert_array_equal(*states)
    assert states[0][1] == start[1] + 2 * training.STEPS_PER_EPOCH
    seeds = kf.ops.all_gather(states[0][0]).numpy()
    assert len(set(seeds)) == kf.size() and (seeds[kf.rank()] == start[0]) == (kf.rank() == 0)


def train_monitored(optimizer, hook, seed, steps=training.STEPS_PER_EPOCH):
    """A MonitoredTrainingSession; returns the weights before and after."""

    def weights(step_context):
        return step_context.session.run(v1.trainable_variables())

    x, y = training.samples(training.BATCH)
    with tf.Graph().as_default():
        loss = training.v1_loss(tf.constant(x), tf.constant(y), use_resource=True, seed=seed)
        train = optimizer.minimize(loss * (kf.rank() + 1), v1.train.get_or_create_global_step())
        with v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
            start = session.run_step_fn(weights)
            for _ in range(steps):
                session.run(train)
            end = session.run_step_fn(weights)
    return start, end


def case_hook():
    optimizer = SynchronousSGDOptimizer(v1.train.MomentumOptimizer(0.01, 0.9))
    hook = kf.initializer.BroadcastGlobalVariablesHook(check_every=4)
    start, end = train_monitored(optimizer, hook, seed=kf.rank())
    assert_equal_on_all_peers(start)
    assert_equal_on_all_peers(end)
    assert training.digest(start) != training.digest(end)


def case_estimator():
    """Where there still is one (TF 2.15): the hook works in its sessions."""
    if not hasattr(v1, "estimator"):
        raise Skip("this TensorFlow has no Estimator")
    x, y = training.samples(training.BATCH)

    def model_fn(features, labels, mode):
        loss = training.v1_loss(features, labels, use_resource=True, seed=kf.rank())
        optimizer = SynchronousSGDOptimizer(v1.train.AdamOptimizer(0.01))
        train = optimizer.minimize(loss * (kf.rank() + 1), v1.train.get_global_step())
        return v1.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    with tempfile.TemporaryDirectory() as directory:
        estimator = v1.estimator.Estimator(model_fn, directory)
        hook = kf.initializer.BroadcastGlobalVariablesHook(check_every=4)
        dataset = lambda: tf.data.Dataset.from_tensors((x, y)).repeat()  # noqa: E731
        estimator.train(dataset, steps=10, hooks=[hook])
        names = estimator.get_variable_names()
        values = [estimator.get_variable_value(name) for name in sorted(names)]
    assert len(values) == 1 + 6 + 2 * 6 + 2
    assert_equal_on_all_peers(values)


def case_hook_sees_that_nothing_was_averaged():
    def train(check_every):
        hook = kf.initializer.BroadcastGlobalVariablesHook(check_every=check_every)
        train_monitored(v1.train.MomentumOptimizer(0.01, 0.9), hook, seed=1)

    message = divergence_of(lambda: train(1000))
    assert message.startswith("6 of 6 variables differ"), message
    assert "after step 1:" in message and on_ranks_1_and_2() in message, message
    train(None)
