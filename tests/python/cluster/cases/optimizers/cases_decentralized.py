"""Decentralized SGD against a simulation of all peers in NumPy, in float64."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import training
from harness import each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import optimizers, topology
from kungfu_tf.native import libraries
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}, {"np": 4, "cases": ["as_in_numpy"]}, {"np": 1, "cases": ["every"]}]

STEPS = 50
RATE, MOMENTUM = 1 / 16, 7 / 8
TOLERANCE = 1e-12
TOPOLOGIES = {
    "ring": topology.ring(),
    "exp2": topology.exponential(),
    "base-2": topology.base_graph(),
}

tf.keras.backend.set_floatx("float64")


def batches():
    """[step, rank, sample, feature], and what the model should say."""
    random = np.random.default_rng(5)
    x = random.normal(size=(STEPS, kf.size(), 8, 3))
    return x, np.sin(x.sum(axis=-1, keepdims=True)) + np.arange(kf.size())[:, None, None]


def first_weights():
    """Different on each peer: [rank, weight]."""
    return np.random.default_rng(6).normal(size=(kf.size(), 3))


def simulated(graph, style):
    """The weights of all peers after all steps."""
    weights, speeds = first_weights(), np.zeros([kf.size(), 3])
    for step, (x, y) in enumerate(zip(*batches(), strict=True)):
        matrix = graph.at(step, kf.size())
        error = x @ weights[:, :, None] - y
        speeds = MOMENTUM * speeds - RATE * 2 * np.mean(error * x, axis=1)
        weights = matrix @ (weights + speeds) if style == "atc" else matrix @ weights + speeds
    return weights


def linear_model():
    layers = [tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1, use_bias=False)]
    return tf.keras.Sequential(layers)


@each(name=["ring", "exp2", "base-2"], style=["atc", "awc", "awc, overlapped"])
def case_as_in_numpy(name, style):
    style, *overlapped = style.split(", ")
    model = linear_model()
    model.set_weights([first_weights()[kf.rank()][:, None]])
    optimizer = optimizers.DecentralizedSGDOptimizer(
        tf.keras.optimizers.SGD(RATE, momentum=MOMENTUM),
        topology=TOPOLOGIES[name],
        style=style,
        overlap=bool(overlapped),
    )

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    for number, (x, y) in enumerate(zip(*batches(), strict=True)):
        step(tf.constant(x[kf.rank()]), tf.constant(y[kf.rank()]))
        if number == STEPS // 2:  # as an evaluation does
            generations.algorithms_of(optimizer)[0].settle()
    expected = simulated(TOPOLOGIES[name], style)
    trained = model.get_weights()[0][:, 0]
    np.testing.assert_allclose(trained, expected[kf.rank()], rtol=TOLERANCE, atol=TOLERANCE)
    others = np.delete(simulated(topology.from_matrix(np.eye(kf.size())), style), kf.rank(), 0)
    assert np.abs(others - trained).max() > 1e-3
    [algorithm] = generations.algorithms_of(optimizer)
    algorithm.finish()
    # One is begun after each update. The first has none before it, nor has that after settling.
    ahead, at_once = (libraries.completed(f"{algorithm.name}/{k}") for k in ("ahead/0", "model"))
    assert (ahead, at_once) == ((STEPS, 2) if overlapped else (0, STEPS))


def mixed_sometimes(graph, every, ends):
    """The number of a step, and the weights and meetings after it, as the docstring has it.

    Args:
        graph: The topology.
        every: The steps between two meetings.
        ends: The numbers of steps after which a training ends, and another one begins.
    """
    weights, meeting, met = first_weights(), 0, 0
    for step, (x, y) in enumerate(zip(*batches(), strict=True), start=1):
        error = x @ weights[:, :, None] - y
        weights = weights - RATE * 2 * np.mean(error * x, axis=1)
        if step - met == every or step in ends:
            weights = graph.at(meeting, kf.size()) @ weights
            meeting, met = meeting + 1, step
        yield step, weights, meeting


@each(mode=["eager", "function"])
def case_every(mode):
    """Nothing is sent between. An end mixes once more, by the matrix that follows."""
    every, ends = 3, (4, 5, 8, 10)  # between meetings, and at one
    variable = tf.Variable(first_weights()[kf.rank()][:, None])
    optimizer = optimizers.DecentralizedSGDOptimizer(tf.keras.optimizers.SGD(RATE), every=every)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ variable - y))
        optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])

    generations.build(optimizer, [variable])
    [algorithm] = generations.algorithms_of(optimizer)
    run = tf.function(step) if mode == "function" else step
    simulation = mixed_sometimes(topology.base_graph(), every, ends)
    for x, y in zip(*(part[:14] for part in batches()), strict=True):
        number, expected, meetings = next(simulation)
        run(tf.constant(x[kf.rank()]), tf.constant(y[kf.rank()]))
        if number in ends:
            algorithm.finish()
        found = variable.numpy()[:, 0]
        np.testing.assert_allclose(found, expected[kf.rank()], rtol=TOLERANCE, atol=TOLERANCE)
        done = libraries.completed(f"{algorithm.name}/model")
        assert done == int(algorithm.state.meetings) == (meetings if kf.size() > 1 else 0), number


def case_every_is_for_atc():
    plain = tf.keras.optimizers.SGD(0.1)
    for options, error in (
        ({"every": 0}, ValueError),
        ({"every": 1.5}, TypeError),
        ({"every": 2, "style": "awc"}, ValueError),
    ):
        make = lambda o=options: optimizers.DecentralizedSGDOptimizer(plain, **o)  # noqa: E731
        assert "every" in raised_by(error, make)


def case_a_function_is_no_topology():
    """Its parentheses were forgotten."""
    for wrapper in (
        optimizers.DecentralizedSGDOptimizer,
        optimizers.ExactDiffusionOptimizer,
        optimizers.GradientTrackingOptimizer,
        optimizers.PushSumOptimizer,
        optimizers.QuasiGlobalMomentumOptimizer,
    ):
        make = lambda w=wrapper: w(tf.keras.optimizers.SGD(0.1), topology=kf.topology.ring)  # noqa: E731
        assert "topology takes a topology" in raised_by(TypeError, make)


def parts_of_a_model():
    """Two variables, of which each peer has another value, and their means over the peers."""
    parts = [tf.Variable(float(kf.rank() + 10 * i), dtype="float64") for i in range(2)]
    return parts, [(kf.size() - 1) / 2 + 10 * i for i in range(2)]


@each(mode=["eager", "function"])
def case_parts_in_turn_are_mixed_fully(mode):
    """As of a GAN, with one optimizer."""
    parts, means = parts_of_a_model()
    optimizer = optimizers.DecentralizedSGDOptimizer(tf.keras.optimizers.SGD(RATE))
    generations.build(optimizer, parts)

    def step():
        for part in parts:
            optimizer.apply_gradients([(tf.zeros([], "float64"), part)])

    run = tf.function(step) if mode == "function" else step
    for _ in range(topology.base_graph().exact_steps(kf.size())):
        run()
    np.testing.assert_allclose([part.numpy() for part in parts], means, rtol=1e-15)


@each(with_step=[True, False], every=[1, 2])
def case_sessions_go_through_the_cycle(with_step, every):
    """Whether or not somebody raises the global step, which each monitored session has."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        parts, means = parts_of_a_model()
        step = v1.train.get_or_create_global_step()
        optimizer = optimizers.DecentralizedSGDOptimizer(
            v1.train.GradientDescentOptimizer(0.0), every=every
        )
        train = optimizer.minimize(tf.add_n(parts), step if with_step else None, var_list=parts)
        with v1.train.SingularMonitoredSession() as session:
            raw = session.raw_session()
            for part, value in zip(parts, (kf.rank(), kf.rank() + 10), strict=True):
                part.load(float(value), raw)  # the session has given all peers rank 0's
            for _ in range(every * topology.base_graph().exact_steps(kf.size())):
                session.run(train)
            found = raw.run(parts)
    np.testing.assert_allclose(found, means, rtol=1e-15)


@each(every=[1, 3])
def case_in_fit(every):
    """`fit` validates and ends with the average, whatever the numbers of batches."""
    model = linear_model()
    optimizer = tf.keras.optimizers.SGD(0.1)
    model.compile(optimizers.DecentralizedSGDOptimizer(optimizer, every=every), "mse")
    x = np.random.default_rng(kf.rank()).normal(size=(32 + 8 * kf.rank(), 3))
    history = model.fit(x, x.sum(axis=1), batch_size=8, epochs=8, verbose=0)
    assert history.history["loss"][-1] < 0.1 * history.history["loss"][0]
    assert kf.ops.consensus(model.get_weights()[0])
    np.testing.assert_allclose(model.get_weights()[0][:, 0], 1, atol=0.2)


def case_overlap_in_fit():
    """Validations, and a second `fit`, find nothing under way, and all models in the end equal."""
    model = linear_model()
    optimizer = tf.keras.optimizers.SGD(0.1)
    model.compile(optimizers.DecentralizedSGDOptimizer(optimizer, style="awc", overlap=True), "mse")
    x = np.random.default_rng(kf.rank()).normal(size=(32 + 8 * kf.rank(), 3))
    y = x.sum(axis=1)
    for _ in range(2):
        history = model.fit(x, y, batch_size=8, epochs=4, verbose=0, validation_data=(x, y))
    assert history.history["val_loss"][-1] < 0.01
    assert kf.ops.consensus(model.get_weights()[0])


def case_overlap_is_for_awc():
    plain = tf.keras.optimizers.SGD(0.1)
    text = raised_by(
        kf.errors.InvalidArgumentError,
        lambda: optimizers.DecentralizedSGDOptimizer(plain, overlap=True),
    )
    assert "overlap is for style 'awc', not for 'atc'" in text


def case_a_topology_that_makes_no_means_is_refused():
    rows = topology.from_matrix([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]])
    model = linear_model()
    optimizer = optimizers.DecentralizedSGDOptimizer(tf.keras.optimizers.SGD(0.1), topology=rows)
    [variable] = model.trainable_variables
    text = raised_by(
        kf.errors.InvalidArgumentError,
        lambda: optimizer.apply_gradients([(tf.zeros([3, 1], tf.float64), variable)]),
    )
    assert "column 1 adds up to 1.5, not to 1" in text, text


def case_survives_a_config():
    """An optimizer that is made from the class mixes, too."""
    plain = tf.keras.optimizers.SGD(0.1)
    optimizer = optimizers.DecentralizedSGDOptimizer(plain, style="awc")
    again = type(optimizer).from_config(optimizer.get_config())
    [algorithm] = generations.algorithms_of(again)
    assert algorithm.style == "awc"
    assert training.is_keras_3() or type(again).__name__ == type(plain).__name__
