"""Policies in `fit`: batches and learning rates change on all peers alike, as rank 0 wants it."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import training
from harness import each, exhaustive
from support import logged, raised_by

import kungfu_tf as kf
from kungfu_tf.callbacks import PolicyCallback
from kungfu_tf.policy import BasePolicy

JOBS = [{"np": 2}, {"np": 1, "cases": ["batch_size"]}]
TOLERANCE = 1e-12
SAMPLES = 160  # of each peer
RATE = 0.1

tf.keras.backend.set_floatx("float64")
keras = tf.keras


class Watches(keras.callbacks.Callback):
    """Digests the weights after every step."""

    def __init__(self):
        super().__init__()
        self.sizes, self.digests = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.digests.append(training.digest(training.values_of(self.model.weights)))


class Tells(BasePolicy):
    """Notes what is called, and what it sees; asks for what it is told to ask for after a step."""

    def __init__(self, wishes=()):
        self.wishes = dict(wishes)
        self.calls, self.seen = [], []

    def before_train(self, training):
        self.calls.append("before_train")

    def before_epoch(self, training):
        self.calls.append(f"before_epoch {training.epoch}")

    def before_step(self, training):
        self.calls.append("before_step")

    def after_step(self, training):
        self.calls.append("after_step")
        self.seen.append(
            (training.step, training.trained_samples, training.batch_size, training.learning_rate)
        )
        assert training.step_time > 0 and len(training.egress_rates) == training.size == kf.size()
        assert training.throughput >= 0
        for action, value in self.wishes.get(training.step, {}).items():
            getattr(training, action)(*value)

    def after_epoch(self, training):
        self.calls.append(f"after_epoch {training.epoch}")

    def after_train(self, training):
        self.calls.append("after_train")


def mine():
    x, y = training.samples(SAMPLES * kf.size())
    return x[kf.rank() :: kf.size()], y[kf.rank() :: kf.size()]


def fit(policies, x=None, epochs=1, make=keras.optimizers.SGD, model=None, **options):
    """Trains, in batches of 8 at first."""
    model = model or training.dense_model()
    model.compile(kf.optimizers.SynchronousSGDOptimizer(make(RATE)), "mse")
    dataset = tf.data.Dataset.from_tensor_slices(mine()).batch(8) if x is None else x
    watches = Watches()
    callback = PolicyCallback(policies, **options)
    model.fit(dataset, epochs=epochs, verbose=0, callbacks=[callback, watches])
    return model, watches


def replayed(totals, rates):
    """The weights of one process whose steps have so many samples, at these rates."""
    x, y = training.samples(SAMPLES * kf.size())
    model, optimizer = training.dense_model(), keras.optimizers.SGD(RATE)
    begin = 0
    for total, rate in zip(totals, rates, strict=True):
        rows = slice(begin, begin + total)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x[rows]) - y[rows]))
        optimizer.learning_rate = rate
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        begin += total
    assert begin == len(x), begin
    return training.values_of(model.trainable_variables)


@each(data=["tf.data", "arrays", "generator"])
def case_batch_size(data):
    """Changes in the middle of an epoch; all samples are trained on, each once, in their order."""
    wishes = {2: {"set_batch_size": [20], "set_learning_rate": [0.05]}, 6: {"set_batch_size": [5]}}
    tells = Tells(wishes if kf.is_root() else {3: {"set_batch_size": [1]}})
    x, y = mine()
    model = training.dense_model()
    model.compile(kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(RATE)), "mse")
    watches, options = Watches(), {"batch_size": 8}
    given = {"x": tf.data.Dataset.from_tensor_slices((x, y)).batch(8)}
    if data == "arrays":
        given, options = {"x": x, "y": y, "batch_size": 8, "shuffle": False}, {}
    elif data == "generator":
        given = {"x": ((x[i : i + 8], y[i : i + 8]) for i in range(0, SAMPLES, 8))}
    history = model.fit(
        **given, verbose=0, callbacks=[PolicyCallback([tells], **options), watches]
    ).history
    assert history["batch_size"] == [5]
    totals = np.diff([0, *(samples for _, samples, _, _ in tells.seen)])
    sizes = [total // kf.size() for total in totals]
    assert sizes == [8] * 8 + [20] * 4 + [5, 5, 5, 1], sizes
    rates = [0.1, 0.1] + [0.05] * (len(sizes) - 2)
    for found, wanted in zip(
        training.values_of(model.trainable_variables), replayed(totals, rates), strict=True
    ):
        assert np.linalg.norm(found - wanted) <= TOLERANCE * np.linalg.norm(wanted)
    assert kf.ops.consensus(np.array(watches.digests))


def case_when_they_are_called():
    tells = Tells({23: {"stop": []}})
    fit([tells], epochs=3)
    steps = ["before_step", "after_step"]
    elastic_run = [*tells.calls[1:], None]
    is_last = lambda call, then: call == "before_step" and then != "after_step"  # noqa: E731
    calls = zip(tells.calls, elastic_run, strict=True)
    assert [call for call, then in calls if not is_last(call, then)] == [
        *["before_train", "before_epoch 0", *steps * 20, "after_epoch 0"],
        *["before_epoch 1", *steps * 3, "after_epoch 1", "after_train"],
    ]
    assert [step for step, *_ in tells.seen] == list(range(1, 24))
    assert tells.seen[19][1] == SAMPLES * kf.size()  # of the first epoch


def case_the_next_epoch_begins_with_the_new_size():
    """With fewer batches, or more."""
    tells = Tells({20: {"set_batch_size": [40]}, 24: {"set_batch_size": [5]}})
    fit([tells], epochs=4)
    assert len(tells.seen) == 20 + 4 + 32 + 32
    assert tells.seen[-1][1] == 4 * SAMPLES * kf.size()


def case_a_schedule():
    policy = kf.policy.ScheduledBatchSizePolicy("4:5,10:3,30:1", scale_learning_rate="sqrt")
    tells = Tells()
    fit([policy, tells], epochs=2)
    rates = {size: RATE * (size / 8) ** 0.5 for size in (8, 4, 10, 30)}
    assert {size for _, _, size, _ in tells.seen} == {4, 10, 30}
    for _, _, size, rate in tells.seen:
        np.testing.assert_allclose(rate, rates[size])


class Fails(BasePolicy):
    """On one peer, after its second step."""

    def __init__(self, rank):
        self.rank = rank
        self.steps = 0

    def after_step(self, training):
        self.steps += 1
        if self.steps == 2 and kf.rank() == self.rank:
            raise OSError("no thermometer")


@each(rank=[0, 1])
@exhaustive(rank=[1])
def case_one_that_raises_ends_the_training(rank):
    is_mine = kf.rank() == rank
    error = kf.errors.PolicyError if is_mine else tf.errors.OpError
    text = raised_by(error, fit, [Fails(rank)])
    assert "Fails.after_step: OSError: no thermometer" in text, text
    assert is_mine or f"rank {rank}" in text, text
    fit([])


@each(rank=[0, 1])
@exhaustive(rank=[1])
def case_training_goes_on_without_one_that_raises(rank):
    fails, tells = Fails(rank), Tells({4: {"set_batch_size": [20]}})
    with logged("kungfu_tf.policy") as lines:
        _, watches = fit([fails, tells], on_error="continue")
    assert fails.steps == 2
    assert tells.seen[-1][2] == 20
    assert kf.ops.consensus(np.array(watches.digests))
    told = [line for line in lines if "Fails.after_step: OSError: no thermometer" in line]
    assert len(told) == (kf.rank() == rank), lines


@each(what=["number", "kinds", "order", "none"])
@exhaustive(what=["kinds", "none"])
def case_policies_that_differ_are_named_before_they_are_called(what):
    theirs = {
        "number": [BasePolicy],
        "kinds": [BasePolicy, kf.policy.LatencyTreePolicy],
        "order": [Tells, BasePolicy],
        "none": [],
    }[what]
    kinds = [BasePolicy, Tells] if kf.is_root() else theirs
    policies = [kind() for kind in kinds]
    text = raised_by(ValueError, fit, policies)
    names = [kind.__name__ for kind in kinds]
    assert f"here, on rank {kf.rank()}: {names}" in text, text
    assert f"something else on rank {1 - kf.rank()}" in text, text
    assert not any(policy.calls for policy in policies if isinstance(policy, Tells))
    fit([BasePolicy()])


def case_a_callback_that_one_peer_lacks():
    model = training.dense_model()
    model.compile(kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(RATE)), "mse")
    callbacks = [PolicyCallback([BasePolicy()])] if kf.is_root() else []
    text = raised_by(ValueError, lambda: model.fit(*mine(), 8, verbose=0, callbacks=callbacks))
    assert "None on rank 1" in text if kf.is_root() else "something else on rank 0" in text, text


def case_the_batch_follows_the_noise_scale():
    """Labels are noise: when that is learnt nothing else is left, and larger batches pay.

    The learning rate grows with them.
    """
    random = np.random.default_rng(kf.rank())
    x = random.normal(size=(1200, training.FEATURES))
    dataset = tf.data.Dataset.from_tensor_slices((x, random.normal(size=(1200, 1)))).batch(4)
    make = keras.optimizers.SGD
    tells = Tells()
    policy = kf.policy.NoiseScaleBatchSizePolicy(16, min_batch_size=4, interval=10)
    model = training.dense_model()
    optimizer = kf.optimizers.MonitorGradientNoiseScaleOptimizer(make(1e-3), 4)
    model.compile(optimizer, "mse")
    model.fit(dataset, verbose=0, epochs=2, callbacks=[PolicyCallback([policy, tells])])
    sizes = [size for _, _, size, _ in tells.seen]
    assert set(sizes) == {4, 8, 16} and sizes[0] == 4 and sizes[-1] == 16, sizes
    for _, _, size, rate in tells.seen:
        np.testing.assert_allclose(rate, 1e-3 * size / 4)
    noise_scale = kf.variables.eval_gradient_noise_scale()
    assert noise_scale > 2 * 16
    assert noise_scale == optimizer.kungfu_algorithm.metrics["noise_scale"].numpy()


def case_peers_that_do_not_train_together():
    model = training.dense_model()
    model.compile("sgd", "mse")
    callback = PolicyCallback([])
    text = raised_by(
        kf.errors.FailedPreconditionError, lambda: model.fit(*mine(), callbacks=[callback])
    )
    assert "do not train this model together" in text


def case_a_generator_must_say_its_size():
    x, y = mine()
    batches = ((x[i : i + 8], y[i : i + 8]) for i in range(0, SAMPLES, 8))
    text = raised_by(ValueError, fit, [], batches)
    assert "batch_size=" in text


def case_ada_scale():
    """The rate, and the end, follow what all peers' batches are worth: the same on all of them."""
    tells, policy = Tells(), kf.policy.AdaScalePolicy(lambda progress: RATE, steps=30)
    optimizer = kf.optimizers.MonitorGradientNoiseScaleOptimizer(keras.optimizers.SGD(RATE), 8)
    model, watches = training.dense_model(), Watches()
    model.compile(optimizer, "mse")
    callbacks = [PolicyCallback([policy, tells]), watches]
    dataset = tf.data.Dataset.from_tensor_slices(mine()).batch(8)
    model.fit(dataset, epochs=5, verbose=0, callbacks=callbacks)
    assert 1 < policy.gain <= kf.size()
    assert 30 <= policy.progress < 30 + kf.size()
    assert 30 / kf.size() <= len(tells.seen) <= 30
    np.testing.assert_allclose(optimizer.learning_rate, RATE * policy.gain, rtol=1e-6)
    assert kf.ops.consensus(np.array(watches.digests))
