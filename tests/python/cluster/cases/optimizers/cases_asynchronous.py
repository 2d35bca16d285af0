"""Push-sum in which no peer waits: peers that take turns are simulated in NumPy, in float64."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each, exhaustive
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import optimizers, topology
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}]

STEPS = 40
RATE = 1 / 16
TOLERANCE = 1e-12
# Rank 0 sends to rank 1 only, and takes of rank 2 only.
SENDS = np.array([[0.5, 0.0, 0.25], [0.5, 0.5, 0.25], [0.0, 0.5, 0.5]])
BACK = SENDS.T / SENDS.sum(axis=1)
# The first step is made together: in it the peers agree on what has gradients.
TURNS = {
    "one": topology.from_matrix([np.eye(3), SENDS]),
    "two": topology.from_matrix([np.eye(3), SENDS, BACK]),
}

tf.keras.backend.set_floatx("float64")


def first_weights():
    """[rank, weight]."""
    return np.random.default_rng(6).normal(size=(kf.size(), 3))


def gradient(rank, weights):
    """Of ½·‖weights − law‖², with another law for each peer."""
    return weights - np.array([1.0, -2.0, 0.5]) * (1 + rank)


def simulated(graph, steps):
    """The weights of all peers after so many turns of each, and the model of all."""
    v, w = first_weights(), np.ones(kf.size())
    z = v.copy()
    left = np.zeros([kf.size(), kf.size(), 4])  # from, to: z and w
    for step in range(steps):
        matrix = graph.at(step, kf.size())
        for i in range(kf.size()):
            both = np.append(v[i] * w[i] - RATE * gradient(i, v[i]), w[i])
            dealt = matrix[:, i] if w[i] >= 0.5 else np.eye(kf.size())[i]
            left[i] += dealt[:, None] * both
            both = left[:, i].sum(axis=0)  # what it has kept, and what was left for it
            left[:, i] = 0
            z[i], w[i] = both[:3], both[3]
            v[i] = z[i] / w[i]
    under_way = left.sum(axis=(0, 1))
    return v, (z.sum(axis=0) + under_way[:3]) / (w.sum() + under_way[3])


def optimizer_of(graph, variable):
    optimizer = optimizers.PushSumOptimizer(
        tf.keras.optimizers.SGD(RATE), topology=graph, asynchronous=True
    )
    generations.build(optimizer, [variable])
    [algorithm] = generations.algorithms_of(optimizer)
    algorithm.build([variable])
    return optimizer, algorithm


@each(name=["one", "two"], mode=["eager", "function"])
@exhaustive(name=["two"], mode=["function"])
def case_in_turns(name, mode):
    graph = TURNS[name]
    variable = tf.Variable(first_weights()[kf.rank()])
    optimizer, _ = optimizer_of(graph, variable)

    def step():
        law = tf.constant(gradient(kf.rank(), np.zeros(3)))
        optimizer.apply_gradients([(variable + law, variable)])

    run = tf.function(step) if mode == "function" else step
    run()
    for _ in range(STEPS - 1):
        for turn in range(kf.size()):
            kf.barrier()
            if turn == kf.rank():
                run()
    kf.barrier()
    expected, model = simulated(graph, STEPS)
    np.testing.assert_allclose(variable, expected[kf.rank()], rtol=TOLERANCE, atol=TOLERANCE)
    assert np.abs(expected - expected[kf.rank()]).max() > 1e-3
    with kf.average_variables([variable]):
        np.testing.assert_allclose(variable, model, rtol=TOLERANCE, atol=TOLERANCE)


def case_nothing_is_lost_at_any_pace():
    """Without gradients the mean of all stays, though some deal out oftener than others."""
    variable = tf.Variable(first_weights()[kf.rank()])
    optimizer, algorithm = optimizer_of(topology.from_matrix(SENDS), variable)
    zero = tf.zeros([3], tf.float64)
    step = tf.function(lambda: optimizer.apply_gradients([(zero, variable)]))
    for _ in range(20 * (1 + kf.rank())):
        step()
    with kf.average_variables([variable]):
        np.testing.assert_allclose(
            variable, first_weights().mean(axis=0), rtol=TOLERANCE, atol=TOLERANCE
        )
    algorithm.before_training()  # all count alike again
    variable.assign(first_weights()[kf.rank()])
    with kf.average_variables([variable]):
        np.testing.assert_allclose(
            variable, first_weights().mean(axis=0), rtol=TOLERANCE, atol=TOLERANCE
        )


def case_in_fit():
    """Peers make as many steps as they have batches; a second `fit` begins anew.

    All have the same law. The rate is so small that each update comes nearer to it, whatever w is.
    """
    layers = [tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1, use_bias=False)]
    model = tf.keras.Sequential(layers)
    plain = tf.keras.optimizers.SGD(0.02)
    graph = topology.from_matrix(SENDS)
    optimizer = optimizers.PushSumOptimizer(plain, topology=graph, asynchronous=True)
    model.compile(optimizer, "mse")
    x = np.random.default_rng(kf.rank()).normal(size=(64 + 64 * kf.rank(), 3))
    y = x.sum(axis=1)
    losses = []
    for _ in range(2):
        history = model.fit(x, y, batch_size=8, epochs=6, verbose=0, validation_data=(x, y))
        losses += history.history["val_loss"]
    assert losses[-1] < 0.3 * losses[0]
    assert kf.ops.consensus(model.get_weights()[0])


def case_wrong_use():
    variable = tf.Variable(np.zeros(3))
    text = raised_by(
        kf.errors.InvalidArgumentError,
        lambda: optimizer_of(topology.from_matrix(SENDS.T), variable),
    )
    assert "column 0 adds up to 0.75, not to 1" in text, text
    group = kf.Group([0, 1, 2])
    text = raised_by(
        kf.errors.InvalidArgumentError,
        lambda: optimizers.PushSumOptimizer(
            tf.keras.optimizers.SGD(RATE),
            topology=topology.from_matrix(SENDS),
            asynchronous=True,
            group=group,
        ),
    )
    assert "asynchronous is not for groups" in text
