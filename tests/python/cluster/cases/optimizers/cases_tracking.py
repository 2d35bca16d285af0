"""Methods of neighbours whose data differ, against simulations in NumPy, in float64."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import optimizers, topology
from kungfu_tf.native import libraries
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}, {"np": 1, "cases": ["momentum"]}]

STEPS, MANY = 40, 400
RATE, MOMENTUM = 1 / 16, 3 / 4
TOLERANCE = 1e-12
EXACT = 1e-9  # of a solution
METHODS = {
    "tracking": optimizers.GradientTrackingOptimizer,
    "diffusion": optimizers.ExactDiffusionOptimizer,
    "neighbours": optimizers.DecentralizedSGDOptimizer,
    "momentum": optimizers.QuasiGlobalMomentumOptimizer,
}
TOPOLOGIES = {"ring": topology.ring(directed=True), "base-2": topology.base_graph()}
PATH = topology.metropolis([(0, 1), (1, 2)])  # symmetric, and not all know each other

tf.keras.backend.set_floatx("float64")


def samples():
    """[rank, sample, feature], and what the model should say: another law for each peer."""
    x = np.random.default_rng(5).normal(size=(kf.size(), 16, 3))
    laws = np.arange(1.0, 1 + kf.size())[:, None, None] * np.array([[1.0], [-2.0], [0.5]])
    return x, x @ laws + np.arange(kf.size())[:, None, None]


def gradients(weights):
    """Of the mean squared error of each peer's samples: [rank, weight]."""
    x, y = samples()
    return 2 * np.mean((x @ weights[:, :, None] - y) * x, axis=1)


def solution():
    """Of all samples."""
    x, y = samples()
    return np.linalg.lstsq(x.reshape(-1, 3), y.reshape(-1), rcond=None)[0]


def first_weights():
    return np.random.default_rng(6).normal(size=(kf.size(), 3))


def tracking(graph, steps):
    """The weights of all peers, as the docstring has it."""
    weights = first_weights()
    known, mixed = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(steps):
        matrix, found = graph.at(step, kf.size()), gradients(weights)
        tracked = mixed + found - known
        weights, mixed, known = matrix @ (weights - RATE * tracked), matrix @ tracked, found
    return weights


def diffusion(graph, steps, first=None):
    """The weights of all peers, as the docstring has it."""
    weights = before = first_weights() if first is None else first
    matrix = graph.at(0, kf.size())
    for _ in range(steps):
        updated = weights - RATE * gradients(weights)
        corrected = updated + weights - before
        weights, before = (corrected + matrix @ corrected) / 2, updated
    return weights


def quasi_global(graph, steps, first=None):
    """The weights of all peers, as the paper has it: its momentum is in units of gradients."""
    weights = first_weights() if first is None else first
    buffers = np.zeros_like(weights)
    for step in range(steps):
        directions = gradients(weights) + MOMENTUM * buffers
        mixed = graph.at(step, kf.size()) @ (weights - RATE * directions)
        buffers = MOMENTUM * buffers + (1 - MOMENTUM) * (weights - mixed) / RATE
        weights = mixed
    return weights


def trained(optimizer, steps, *, mode="function"):
    """The weights of this peer."""
    return variable_of(optimizer, steps, mode).numpy()[:, 0]


def variable_of(optimizer, steps, mode):
    """What was trained."""
    x, y = samples()
    variable = tf.Variable(first_weights()[kf.rank()][:, None])

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x[kf.rank()] @ variable - y[kf.rank()]))
        optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])

    generations.build(optimizer, [variable])
    run = tf.function(step) if mode == "function" else step
    for _ in range(steps):
        run()
    return variable


@each(name=["ring", "base-2"], mode=["eager", "function"])
def case_tracking(name, mode):
    graph = TOPOLOGIES[name]
    optimizer = optimizers.GradientTrackingOptimizer(tf.keras.optimizers.SGD(RATE), topology=graph)
    found = trained(optimizer, STEPS, mode=mode)
    expected = tracking(graph, STEPS)[kf.rank()]
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
    [algorithm] = generations.algorithms_of(optimizer)
    assert libraries.completed(f"{algorithm.name}/model") == STEPS


@each(mode=["eager", "function"])
def case_diffusion(mode):
    optimizer = optimizers.ExactDiffusionOptimizer(tf.keras.optimizers.SGD(RATE), topology=PATH)
    found = trained(optimizer, STEPS, mode=mode)
    expected = diffusion(PATH, STEPS)[kf.rank()]
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


@each(name=["ring", "base-2"], mode=["eager", "function"])
def case_momentum(name, mode):
    graph = TOPOLOGIES[name]
    optimizer = optimizers.QuasiGlobalMomentumOptimizer(
        tf.keras.optimizers.SGD(RATE), momentum=MOMENTUM, topology=graph
    )
    found = trained(optimizer, STEPS, mode=mode)
    expected = quasi_global(graph, STEPS)[kf.rank()]
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def case_a_momentum_that_is_none():
    plain = tf.keras.optimizers.SGD(RATE)
    for momentum, error in ((1.0, ValueError), (-0.5, ValueError), ("much", TypeError)):
        make = lambda m=momentum: optimizers.QuasiGlobalMomentumOptimizer(plain, momentum=m)  # noqa: E731
        assert "momentum" in raised_by(error, make)


@each(method=["tracking", "diffusion", "neighbours"])
def case_the_solution_of_all(method):
    """Peers whose data differ come to it; by mixing alone they keep a distance."""
    optimizer = METHODS[method](tf.keras.optimizers.SGD(RATE), topology=PATH)
    off = np.linalg.norm(trained(optimizer, MANY) - solution()) / np.linalg.norm(solution())
    farthest = kf.ops.all_reduce(np.float64(off), op="max").numpy()
    assert (farthest > 1e-3) if method == "neighbours" else (farthest < EXACT), farthest


def case_the_distance_of_momentum():
    """That of plain SGD. An optimizer's own momentum makes it 1/(1 - momentum) times as large."""

    def distance(optimizer):
        off = np.linalg.norm(trained(optimizer, MANY) - solution())
        return float(kf.ops.all_reduce(np.float64(off), op="max"))

    rate, sgd = RATE / 8, tf.keras.optimizers.SGD
    plain = distance(METHODS["neighbours"](sgd(rate * 4), topology=PATH))
    quasi_global = METHODS["momentum"](sgd(rate * 4), momentum=MOMENTUM, topology=PATH)
    np.testing.assert_allclose(distance(quasi_global), plain, rtol=1e-6)
    own = distance(METHODS["neighbours"](sgd(rate, momentum=MOMENTUM), topology=PATH))
    np.testing.assert_allclose(own, plain, rtol=1e-6)  # of a quarter of the rate


def push_sum(matrix, steps):
    """The weights of all peers, and the model of all, as the docstring has it."""
    weights = first_weights()
    sums, shares = weights, np.ones([kf.size(), 1])
    for _ in range(steps):
        sums, shares = matrix @ (sums - RATE * gradients(weights)), matrix @ shares
        weights = sums / shares
    return weights, sums.sum(axis=0) / shares.sum()


# Rank 0 sends to rank 1 only, and takes of rank 2 only.
SENDS = np.array([[0.5, 0.0, 0.25], [0.5, 0.5, 0.25], [0.0, 0.5, 0.5]])


@each(mode=["eager", "function"])
def case_push_sum(mode):
    optimizer = optimizers.PushSumOptimizer(
        tf.keras.optimizers.SGD(RATE), topology=topology.from_matrix(SENDS)
    )
    variable = variable_of(optimizer, STEPS, mode)
    found, (expected, model) = variable.numpy()[:, 0], push_sum(SENDS, STEPS)
    np.testing.assert_allclose(found, expected[kf.rank()], rtol=TOLERANCE, atol=TOLERANCE)
    with kf.average_variables([variable]):
        of_all = variable.numpy()[:, 0]
    np.testing.assert_allclose(of_all, model, rtol=TOLERANCE, atol=TOLERANCE)
    assert np.abs(model - expected.mean(axis=0)).max() > 1e-3


def case_push_sum_needs_columns():
    optimizer = optimizers.PushSumOptimizer(
        tf.keras.optimizers.SGD(RATE), topology=topology.from_matrix(SENDS.T)
    )
    text = raised_by(kf.errors.InvalidArgumentError, lambda: trained(optimizer, 1, mode="eager"))
    assert "column 0 adds up to 0.75, not to 1" in text, text


@each(method=["tracking", "diffusion", "momentum"])
def case_begun_anew(method):
    """A second training is one from there, whatever the first has left."""
    optimizer = METHODS[method](tf.keras.optimizers.SGD(RATE), topology=PATH)
    [algorithm] = generations.algorithms_of(optimizer)
    variable = tf.Variable(np.zeros([2]))
    generations.build(optimizer, [variable])
    for value in (7.0, float(kf.rank())):
        algorithm.before_training()
        variable.assign(np.full([2], float(kf.rank())))
        optimizer.apply_gradients([(tf.fill([2], tf.constant(value, tf.float64)), variable)])
    updated = (1 - RATE) * np.arange(kf.size())
    matrix = PATH.at(0, kf.size())
    matrix = (matrix + np.eye(kf.size())) / 2 if method == "diffusion" else matrix
    np.testing.assert_allclose(variable.numpy(), (matrix @ updated)[kf.rank()], rtol=1e-14)


@each(method=["tracking", "diffusion", "momentum"])
def case_in_fit(method):
    """It validates and ends with the average, whatever the numbers of batches."""
    layers = [tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1, use_bias=False)]
    model = tf.keras.Sequential(layers)
    model.compile(METHODS[method](tf.keras.optimizers.SGD(0.05)), "mse")
    x = np.random.default_rng(kf.rank()).normal(size=(32 + 8 * kf.rank(), 3))
    history = model.fit(x, x.sum(axis=1), batch_size=8, epochs=8, verbose=0)
    assert history.history["loss"][-1] < 0.1 * history.history["loss"][0]
    assert kf.ops.consensus(model.get_weights()[0])


def step_in_a_graph(optimizer, use_resource=True):
    """The weights, and the operation that trains them."""
    v1 = tf.compat.v1
    x, y = samples()
    first = first_weights()[0][:, None]
    weights = v1.get_variable("weights", initializer=first, use_resource=use_resource)
    loss = tf.reduce_mean(tf.square(x[kf.rank()] @ weights - y[kf.rank()]))
    return weights, optimizer.minimize(loss)


IN_GRAPHS = {
    "diffusion": (lambda o: optimizers.ExactDiffusionOptimizer(o, topology=PATH), diffusion),
    "momentum": (
        lambda o: optimizers.QuasiGlobalMomentumOptimizer(o, momentum=MOMENTUM, topology=PATH),
        quasi_global,
    ),
}


@each(method=["diffusion", "momentum"], use_resource=[True, False])
def case_in_a_session(method, use_resource):
    v1 = tf.compat.v1
    make, simulate = IN_GRAPHS[method]
    with tf.Graph().as_default():
        optimizer = make(v1.train.GradientDescentOptimizer(RATE))
        weights, train = step_in_a_graph(optimizer, use_resource)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(10):
                session.run(train)
            found = session.run(weights)[:, 0]
    expected = simulate(PATH, 10, first=np.repeat(first_weights()[:1], kf.size(), axis=0))
    np.testing.assert_allclose(found, expected[kf.rank()], rtol=1e-12)


@each(method=["tracking", "push-sum"])
def case_graphs_are_refused(method):
    make = {**METHODS, "push-sum": optimizers.PushSumOptimizer}[method]
    with tf.Graph().as_default():
        optimizer = make(tf.compat.v1.train.GradientDescentOptimizer(RATE), topology=PATH)
        text = raised_by(kf.errors.UnimplementedError, lambda: step_in_a_graph(optimizer))
    assert "graphs of TF1" in text, text


def case_topologies_that_diffusion_cannot_have():
    for graph, part in ((topology.ring(directed=True), "rank"), (topology.base_graph(), "stays")):
        optimizer = optimizers.ExactDiffusionOptimizer(
            tf.keras.optimizers.SGD(RATE), topology=graph
        )
        refused = lambda o=optimizer: trained(o, 1, mode="eager")  # noqa: E731
        text = raised_by(kf.errors.InvalidArgumentError, refused)
        assert part in text, text
