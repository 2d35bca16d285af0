"""DiLoCo between islands, whose peers train in step, against NumPy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from diloco_in_numpy import (
    Simulation,
    algorithm_of,
    assert_same,
    keras,
    mine,
    step_of,
    targets,
    variables_of,
    wrapped,
)
from harness import each, exhaustive
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import DiLoCoOptimizer
from kungfu_tf.replicas import sample_weights

JOBS = [{"np": 4}]

STEPS = 20
ISLANDS = {"pairs": [(0, 2), (1, 3)], "uneven": [(0,), (1, 2, 3)], "host": [(0, 1, 2, 3)]}
MADE = {name: [kf.Group(ranks) for ranks in ISLANDS[name]] for name in ("pairs", "uneven")}


def island_of(name):
    if name == "host":
        return name
    [group] = [group for group in MADE[name] if group.included]
    return group


@each(islands=["pairs", "uneven", "host"], overlap=[0, 2])
@exhaustive(islands=["pairs"], overlap=[2])
def case_a_loop(islands, overlap):
    every = 5
    optimizer = wrapped(every, overlap=overlap, island=island_of(islands))
    variables = variables_of()
    step = step_of(optimizer, variables)
    simulation = Simulation(every, 1, overlap, 0.5, ISLANDS[islands])
    for of_step in targets(STEPS):
        step(mine(of_step))
        simulation.step(of_step)
        assert_same(optimizer, variables, simulation, "a step")
    algorithm_of(optimizer).share_state()  # waits for what is under way
    assert libraries.completed(f"{algorithm_of(optimizer).name}/outer") == STEPS // every


@exhaustive()
def case_the_peers_of_an_island_have_the_same_bits():
    optimizer, variables = wrapped(100, island=island_of("pairs")), variables_of()
    step = step_of(optimizer, variables)
    for of_step in targets(STEPS):
        step(mine(of_step))
    values = kf.ops.fuse(variables)
    assert kf.ops.consensus(values, group=island_of("pairs"))
    assert not kf.ops.consensus(values)


def case_samples_count():
    """In the island, and at the meetings."""
    optimizer, variables = wrapped(5, island=island_of("uneven")), variables_of()
    step = step_of(optimizer, variables, "eager")
    simulation = Simulation(5, 1, 0, 0.5, ISLANDS["uneven"])
    for number, of_step in enumerate(targets(STEPS)):
        samples = 1 + (np.arange(kf.size()) * number) % 3
        with sample_weights.samples(tf.constant(int(samples[kf.rank()]))):
            step(mine(of_step))
        simulation.step(of_step, samples)
    assert_same(optimizer, variables, simulation, "at the end")


@exhaustive()
def case_fit():
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Input([3]), keras.layers.Dense(2), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    inner = keras.optimizers.Adam(0.01)
    model.compile(DiLoCoOptimizer(inner, every=4, overlap=1, island=island_of("pairs")), "mse")
    x = np.random.default_rng(kf.rank()).normal(size=(40 + 8 * kf.rank(), 3))
    seen = []

    def see(batch, logs):
        seen.append(kf.ops.consensus(kf.ops.fuse(model.weights), group=island_of("pairs")).numpy())

    watch = keras.callbacks.LambdaCallback(on_train_batch_end=see)
    model.fit(x, x.sum(axis=1), batch_size=8, epochs=2, verbose=0, callbacks=[watch])
    assert seen and all(seen)
    assert kf.ops.consensus(kf.ops.fuse(model.weights))


def case_a_loss_scale_skips_a_step_in_the_whole_island():
    if not hasattr(keras, "Variable"):
        return
    optimizer, variables = wrapped(100, island=island_of("pairs")), variables_of()
    scaled = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8.0)

    @tf.function
    def step(of_step, factor):
        gradients = [8.0 * factor * tf.tanh(v - t) for v, t in zip(variables, of_step, strict=True)]
        scaled.apply_gradients(list(zip(gradients, variables, strict=True)))

    for number, of_step in enumerate(targets(6)):
        is_bad = number in (1, 4) and kf.rank() == 2
        step(mine(of_step), tf.constant(np.inf if is_bad else 1.0, tf.float64))
    skipped = 2 if kf.rank() in (0, 2) else 0
    assert int(optimizer.iterations.numpy()) == 6 - skipped
    assert kf.ops.consensus(kf.ops.fuse(variables), group=island_of("pairs"))


def case_arguments():
    inner = keras.optimizers.SGD(0.1)
    for island in ("rack", [0, 1], 3):
        text = raised_by(TypeError, lambda i=island: DiLoCoOptimizer(inner, island=i))
        assert 'island is "host", or a kungfu_tf.Group' in text
    of_both = lambda: DiLoCoOptimizer(inner, island="host", group=MADE["pairs"][0])  # noqa: E731
    assert "island cannot be with group" in raised_by(ValueError, of_both)
    other = next(group for group in MADE["pairs"] if not group.included)
    step = step_of(wrapped(5, island=other), variables_of(), "eager")
    text = raised_by(kf.errors.InvalidArgumentError, step, mine(targets(1)[0]))
    assert f"rank {kf.rank()} is not in" in text
    if hasattr(keras, "Variable"):
        accumulates = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
        text = raised_by(ValueError, lambda: DiLoCoOptimizer(accumulates, island="host"))
        assert "island" in text and "accumulates" in text
