"""Optimizers whose peers meet after some steps, against a simulation of their docstrings."""

from __future__ import annotations

import os
import tempfile

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each, exhaustive
from meetings_in_numpy import (
    FIRST,
    METHODS,
    MOMENTUM,
    RATE,
    DiLoCo,
    LocalSGD,
    algorithm_of,
    batches,
    close,
    families,
    gradients,
    model_of,
    sgd,
    simulated,
    train,
)
from support import operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf import optimizers
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import DiLoCoOptimizer, LocalSGDOptimizer, SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}, {"np": 1, "cases": ["a_loop", "the_default_outer_optimizer"]}]

NAMES = ["local", "post-local", "diloco", "slowmo"]
MODES = ["eager", "function"]
keras = tf.keras


@each(method=NAMES, mode=MODES)
@exhaustive(mode=["function"])
def case_a_loop(method, mode):
    steps = 50
    wrap, simulate = METHODS[method]
    for family in families():
        optimizer = wrap(family.SGD(RATE, momentum=MOMENTUM))
        model = train(optimizer, steps, mode)
        expected = simulated(simulate(), steps)
        close(training.flat_weights(model), expected[kf.rank()])
        if kf.size() == 1:
            continue
        assert np.abs(expected - expected[0]).max() > 1e-3  # the last step has no meeting
        name = algorithm_of(optimizer).name
        meetings = sum(simulate().meets_after(step) for step in range(steps))
        part = "model" if "local" in method else "outer"
        assert libraries.completed(f"{name}/{part}") == meetings
        first = 11 if method == "post-local" else 0
        assert libraries.completed(f"{name}/gradients/0") == first


def case_the_default_outer_optimizer():
    """Of the paper. Keras 3 has its rates in float32."""
    optimizer = DiLoCoOptimizer(sgd(), every=4)
    model = train(optimizer, 40)
    expected = simulated(DiLoCo(4, 0.7, 0.9), 40)[kf.rank()]
    np.testing.assert_allclose(training.flat_weights(model), expected, rtol=1e-6)
    assert kf.size() == 1 or kf.ops.consensus(training.flat_weights(model))


@each(method=["local", "diloco"])
def case_a_meeting_after_each_step_is_synchronous_sgd(method):
    inner = keras.optimizers.SGD(RATE)
    if method == "local":
        optimizer = LocalSGDOptimizer(inner, every=1)
    else:
        optimizer = DiLoCoOptimizer(inner, outer=keras.optimizers.SGD(1.0), every=1)
    trained = train(optimizer, 20)
    synchronous = train(SynchronousSGDOptimizer(keras.optimizers.SGD(RATE)), 20)
    close(training.flat_weights(trained), training.flat_weights(synchronous))
    assert kf.ops.consensus(training.flat_weights(trained))


@each(resource=[True, False], method=["local", "post-local"])
@exhaustive(resource=[False])
def case_a_session(resource, method):
    v1 = tf.compat.v1
    steps = 50
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = v1.placeholder(tf.float64, [8, 3]), v1.placeholder(tf.float64, [8, 1])
        with v1.variable_scope("net", use_resource=resource):
            kernel = v1.get_variable("kernel", initializer=tf.constant(FIRST[:3, None]))
            bias = v1.get_variable("bias", initializer=tf.constant(FIRST[3:]))
        loss = tf.reduce_mean(tf.square(x @ kernel + bias - y))
        wrap, simulate = METHODS[method]
        optimizer = wrap(v1.train.MomentumOptimizer(RATE, MOMENTUM))
        train = optimizer.minimize(loss, global_step=v1.train.get_or_create_global_step())
        session.run(v1.global_variables_initializer())
        for all_x, all_y in zip(*batches(steps), strict=True):
            session.run(train, {x: all_x[kf.rank()], y: all_y[kf.rank()]})
        trained = training.flat(session.run([kernel, bias]))
    close(trained, simulated(simulate(), steps)[kf.rank()])


def case_a_monitored_session_ends_with_the_average():
    """A peer whose data end ends the session of all."""
    v1 = tf.compat.v1
    steps, every = 6, 4
    all_x, all_y = batches(8)

    class Reads(v1.train.SessionRunHook):
        def after_run(self, context, values):
            own.append(context.session.run(kernel))

        def end(self, session):
            own.append(session.run(kernel))

    own = []
    with tf.Graph().as_default():
        mine = [part[: steps + kf.rank(), kf.rank()] for part in (all_x, all_y)]
        dataset = tf.data.Dataset.from_tensor_slices(tuple(mine))
        x, y = v1.data.make_one_shot_iterator(dataset).get_next()
        kernel = v1.get_variable("kernel", initializer=tf.constant(FIRST[:3, None]))
        loss = tf.reduce_mean(tf.square(x @ kernel - y))
        optimizer = LocalSGDOptimizer(v1.train.GradientDescentOptimizer(RATE), every=every)
        train = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        reads = {"hooks": [Reads()], "log_step_count_steps": None}
        with v1.train.MonitoredTrainingSession(**reads) as session:
            while not session.should_stop():
                session.run(train)
    weights = np.broadcast_to(FIRST * [1, 1, 1, 0], [kf.size(), 4])
    for step in range(steps):
        moves = gradients(weights, all_x[step], all_y[step]) * [1, 1, 1, 0]  # there is no bias
        weights = weights - RATE * moves
        if step + 1 == every:
            weights = LocalSGD(every).meet(weights)
    assert len(own) == steps + 1, len(own)
    close(training.flat(own[-2]), weights[kf.rank(), :3])
    close(training.flat(own[-1]), weights.mean(axis=0)[:3])


def case_diloco_refuses_graphs():
    v1 = tf.compat.v1
    text = raised_by(TypeError, lambda: DiLoCoOptimizer(v1.train.GradientDescentOptimizer(0.1)))
    assert "graphs of TF1" in text and "LocalSGDOptimizer" in text


def case_arguments():
    for every in (0, -1):
        assert "every" in raised_by(ValueError, lambda n=every: LocalSGDOptimizer(sgd(), every=n))
    for every in (1.5, True, None):
        assert "every" in raised_by(TypeError, lambda n=every: DiLoCoOptimizer(sgd(), every=n))
    text = raised_by(ValueError, lambda: LocalSGDOptimizer(sgd(), every=2, start=-1))
    assert "start" in text
    assert "outer" in raised_by(TypeError, lambda: DiLoCoOptimizer(sgd(), outer=0.7))
    wrapped = SynchronousSGDOptimizer(sgd())
    assert "wrapped" in raised_by(ValueError, lambda: DiLoCoOptimizer(sgd(), outer=wrapped))


def case_diloco_refuses_moving_averages():
    if not hasattr(sgd(), "use_ema"):
        raise Skip("this Keras has none")
    assert "use_ema" in raised_by(ValueError, lambda: DiLoCoOptimizer(sgd(use_ema=True)))


def case_start_does_not_go_with_accumulation():
    if not training.is_keras_3():
        raise Skip("Keras 3")
    text = raised_by(
        ValueError,
        lambda: LocalSGDOptimizer(sgd(gradient_accumulation_steps=2), every=2, start=1),
    )
    assert "accumulates" in text


def case_each_optimizer_has_an_outer_one_of_its_own():
    outer = keras.optimizers.SGD(0.5, momentum=0.25)
    algorithms = [algorithm_of(DiLoCoOptimizer(sgd(), outer=outer)) for _ in range(2)]
    made = [outer for algorithm in algorithms for outer in algorithm.outers]
    assert made[0] is not made[1] and outer not in made
    assert [float(generations.native(one.learning_rate)) for one in made] == [0.5, 0.5]


def case_anchors_of_halves_are_in_float32():
    """A movement below the precision of the variable counts."""
    variable = tf.Variable(tf.ones([4], tf.bfloat16))
    outer = keras.optimizers.SGD(2.0**-8)
    optimizer = DiLoCoOptimizer(keras.optimizers.SGD(1.0), outer=outer, every=1)
    for _ in range(8):
        optimizer.apply_gradients([(tf.fill([4], tf.constant(0.25, tf.bfloat16)), variable)])
    assert np.all(tf.cast(variable, tf.float32).numpy() < 1)


def case_anchors_are_those_of_rank_0():
    """Also if the program makes the peers equal after the first step, as Horovod's do."""
    model = model_of(FIRST + kf.rank())
    optimizer = DiLoCoOptimizer(keras.optimizers.SGD(RATE), every=2)
    step = training.step_of(model, optimizer)
    for number, (x, y) in enumerate(zip(*batches(4), strict=True)):
        step(tf.constant(x[kf.rank()]), tf.constant(y[kf.rank()]))
        if number == 0:
            kf.initializer.broadcast_variables(model.variables)
    assert kf.ops.consensus(training.flat_weights(model))
    with kf.average_variables(model):
        assert kf.ops.consensus(training.flat_weights(model))


def case_the_model_of_diloco_is_its_anchor():
    outer = keras.optimizers.SGD(1.0, momentum=3 / 4, nesterov=True)
    optimizer = DiLoCoOptimizer(sgd(), outer=outer, every=4)
    model = train(optimizer, 6)
    own, simulation = training.flat_weights(model), DiLoCo(4, 1.0, 3 / 4)
    simulated(simulation, 6)
    before = operations_done()
    with kf.average_variables(model):
        close(training.flat_weights(model), simulation.anchor)
    np.testing.assert_array_equal(training.flat_weights(model), own)
    assert operations_done() == before
    weights = simulated(DiLoCo(4, 1.0, 3 / 4), 6)
    algorithm_of(optimizer).finish()
    close(training.flat_weights(model), simulation.meet(weights)[0])
    algorithm_of(optimizer).finish()  # there is nothing to end
    close(training.flat_weights(model), simulation.anchor)


def case_local_sgd_finishes_with_the_mean():
    optimizer = LocalSGDOptimizer(sgd(), every=4)
    model = train(optimizer, 6)
    algorithm_of(optimizer).finish()
    close(training.flat_weights(model), simulated(LocalSGD(4), 6).mean(axis=0))
    assert kf.ops.consensus(training.flat_weights(model))


@each(method=["local", "diloco"])
def case_a_checkpoint_of_a_loop(method):
    """Made at a meeting, it continues as if nothing had been interrupted: at other steps, too."""
    steps = 22
    path = os.path.join(tempfile.gettempdir(), f"{os.environ['KUNGFU_JOB_ID']}-{method}")
    wrap = METHODS[method][0]
    whole = train(wrap(keras.optimizers.SGD(RATE)), steps)

    def checkpoint(model, optimizer):
        state = optimizer.kungfu_algorithm.state
        return tf.train.Checkpoint(
            weights=[generations.native(v) for v in model.trainable_variables], algorithm=state
        )

    optimizer = wrap(keras.optimizers.SGD(RATE))
    model = train(optimizer, 8)
    if kf.is_root():
        checkpoint(model, optimizer).write(path)
    kf.barrier()
    optimizer = wrap(keras.optimizers.SGD(RATE))
    model = model_of(np.zeros(4))
    checkpoint(model, optimizer).read(path)
    step = tf.function(training.step_of(model, optimizer))
    for x, y in list(zip(*batches(steps), strict=True))[8:]:
        step(tf.constant(x[kf.rank()]), tf.constant(y[kf.rank()]))
    close(training.flat_weights(model), training.flat_weights(whole))


@each(method=["local", "diloco"])
def case_newcomers_to_a_loop(method):
    """Rank 0 has trained for some steps. The others are new, and get its state."""
    steps, first = 22, 8
    wrap = METHODS[method][0]
    whole = train(wrap(keras.optimizers.SGD(RATE)), steps)
    trained = wrap(keras.optimizers.SGD(RATE))
    given = train(trained, first).get_weights()
    optimizer, model = wrap(keras.optimizers.SGD(RATE)), model_of(np.zeros(4))
    algorithm = optimizer.kungfu_algorithm
    algorithm.build(model.trainable_variables)
    if kf.is_root():
        model.set_weights(given)
        state = trained.kungfu_algorithm.variables
        for variable, value in zip(algorithm.variables, state, strict=True):
            variable.assign(value)
    kf.initializer.broadcast_variables([*model.variables, *algorithm.variables])
    step = tf.function(training.step_of(model, optimizer))
    for x, y in list(zip(*batches(steps), strict=True))[first:]:
        step(tf.constant(x[kf.rank()]), tf.constant(y[kf.rank()]))
    close(training.flat_weights(model), training.flat_weights(whole))


def case_the_names_are_public():
    assert optimizers.Meets.SOMETIMES in optimizers.Meets
    assert algorithm_of(LocalSGDOptimizer(sgd(), every=2)).meets is optimizers.Meets.SOMETIMES
