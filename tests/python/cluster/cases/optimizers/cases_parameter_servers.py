"""Parameter servers, against sums in NumPy: who owns what, what a push does, who waits for whom."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each

import kungfu_tf as kf
from kungfu_tf import ops, optimizers

# Where three numbers are added up, the order shows: it is that of one tree, whatever the names.
JOBS = [{"np": 3, "env": {"KUNGFU_STRATEGY": "STAR"}}]

RATE, MOMENTUM = 1 / 16, 7 / 8  # exact in any precision
SHAPES = [(5, 4), (4,), (4, 3), (3,), (3, 2)]

tf.keras.backend.set_floatx("float64")


def need_keras_3():
    if not training.is_keras_3():
        raise Skip("parameter servers are for optimizers of Keras 3")


def served(optimizer, staleness=None):
    need_keras_3()
    return optimizers.ParameterServerOptimizer(optimizer, staleness=staleness)


def variables_of(seed):
    need_keras_3()
    random = np.random.default_rng(seed)
    return [tf.keras.Variable(random.normal(size=shape), dtype="float64") for shape in SHAPES]


def gradients_of(number):
    random = np.random.default_rng([7, number])
    return [random.normal(size=shape) for shape in SHAPES]


def push(optimizer, gradients, variables):
    optimizer.apply([tf.constant(g) for g in gradients], variables)


def push_zeros(optimizer, variables):
    """Which change nothing. In their first step all peers agree on what they push."""
    push(optimizer, [np.zeros(shape) for shape in SHAPES], variables)


def check_values(variables, expected):
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, rtol=1e-12, atol=1e-14)


def case_each_push_is_an_update_of_its_own():
    """The peers take turns, so the order is known."""
    variables = variables_of(1)
    optimizer = served(tf.keras.optimizers.SGD(RATE, momentum=MOMENTUM))
    optimizer.build(variables)
    expected = [v.numpy() for v in variables]
    speeds = [np.zeros(shape) for shape in SHAPES]
    turns = 4 * kf.size()
    push_zeros(optimizer, variables)
    for turn in range(turns):
        if turn % kf.size() == kf.rank():
            push(optimizer, gradients_of(turn), variables)
        optimizer.kungfu_algorithm.share_state()  # waits until it has been applied
        speeds = [MOMENTUM * m - RATE * g for m, g in zip(speeds, gradients_of(turn), strict=True)]
        expected = [v + m for v, m in zip(expected, speeds, strict=True)]
    assert int(optimizer.iterations) == turns + kf.size()
    with kf.average_variables(variables):
        check_values(variables, expected)
    optimizer.kungfu_algorithm.finish()


def check_pushes(optimizer, gradients, expected):
    """Pushes these of each peer, in no order, and compares the variables with `expected`."""
    variables = [tf.keras.Variable(np.zeros(shape), dtype="float64") for shape in SHAPES]
    optimizer.build(variables)
    for of_step in gradients:
        push(optimizer, of_step, variables)
    optimizer.kungfu_algorithm.finish()
    assert int(optimizer.iterations) == kf.size() * len(gradients)
    with kf.average_variables(variables):
        for variable, value in zip(variables, expected, strict=True):
            np.testing.assert_array_equal(variable.numpy(), value)


@each(staleness=[None, 2])
def case_no_push_is_lost_or_made_twice(staleness):
    """Whatever their order: sums of integers are exact, and equal gradients are alike."""

    def integers_of(rank):
        draw = np.random.default_rng([10, rank]).integers
        return [[draw(-9, 10, shape).astype(float) for shape in SHAPES] for _ in range(20)]

    mine, *_ = given = [integers_of((kf.rank() + n) % kf.size()) for n in range(kf.size())]
    sums = [sum(of_step[i] for of_peer in given for of_step in of_peer) for i in range(len(SHAPES))]
    sgd = tf.keras.optimizers.SGD
    check_pushes(served(sgd(RATE), staleness), mine, [-RATE * total for total in sums])
    speed = place = 0.0
    for _ in range(6 * kf.size()):
        speed = speed / 2 - RATE
        place += speed
    ones = [[np.ones(shape) for shape in SHAPES] for _ in range(6)]
    half = served(sgd(RATE, momentum=1 / 2), staleness)
    check_pushes(half, ones, [np.full(shape, place) for shape in SHAPES])


def case_a_peer_has_its_part_of_the_slots():
    """At most one third of all, and the largest one."""
    variables = variables_of(2)
    optimizer = served(tf.keras.optimizers.Adam(RATE))
    optimizer.build(variables)
    sizes = [int(np.prod(shape)) for shape in SHAPES]
    state = [v for v in optimizer.variables if len(v.shape)]
    mine = sum(int(np.prod(v.shape)) for v in state)
    assert mine <= 2 * (sum(sizes) / kf.size() + max(sizes))
    total = ops.all_reduce(np.array(mine), name="slots").numpy()
    assert total == 2 * sum(sizes)


def case_a_step_pulls_what_the_owners_have():
    variables = variables_of(3)
    optimizer = served(tf.keras.optimizers.SGD(RATE))
    optimizer.build(variables)
    expected = [v.numpy() - RATE * g for v, g in zip(variables, gradients_of(0), strict=True)]
    push_zeros(optimizer, variables)
    if kf.is_root():
        push(optimizer, gradients_of(0), variables)
    optimizer.kungfu_algorithm.share_state()
    push_zeros(optimizer, variables)
    check_values(variables, expected)
    optimizer.kungfu_algorithm.finish()


@each(staleness=[None, 2])
def case_a_step_sees_its_own_push(staleness):
    """Each peer counts its steps in its place of three variables, which three peers own."""
    optimizer = served(tf.keras.optimizers.SGD(RATE), staleness)
    variables = [tf.keras.Variable(np.zeros(3), dtype="float64") for _ in range(3)]
    optimizer.build(variables)
    one = -np.eye(3)[kf.rank()] / RATE
    for step in range(1, 21):
        push(optimizer, [one] * 3, variables)
        assert [int(v.numpy()[kf.rank()]) for v in variables] == [step] * 3
    optimizer.kungfu_algorithm.finish()


def case_nobody_waits_for_a_straggler():
    """The last peer is in its second step until the others have made 50."""
    variables = variables_of(4)
    optimizer = served(tf.keras.optimizers.SGD(RATE))
    push_zeros(optimizer, variables)
    held = kf.rank() == kf.size() - 1
    if held:
        for other in range(kf.size() - 1):
            ops.request_variable(other, name="50 steps", shape=[], dtype=tf.bool)
    for _ in range(50):
        push_zeros(optimizer, variables)
    if not held:
        ops.save_variable(tf.constant(True), name="50 steps")
    optimizer.kungfu_algorithm.finish()


def case_a_peer_is_at_most_so_many_steps_ahead():
    """Rank 0 comes through its step 4 only when all others have begun their second one.

    That counts from a meeting, however many steps each has made before.
    """
    variables = variables_of(5)
    optimizer = served(tf.keras.optimizers.SGD(RATE), staleness=2)
    for _ in range(3 if kf.is_root() else 1):
        push_zeros(optimizer, variables)
    optimizer.kungfu_algorithm.share_state()
    push_zeros(optimizer, variables)
    if kf.is_root():
        push_zeros(optimizer, variables)
        push_zeros(optimizer, variables)
        ops.save_variable(tf.constant(True), name="is ahead")
        push_zeros(optimizer, variables)
        for other in range(1, kf.size()):
            ops.request_variable(other, name="goes on", shape=[], dtype=tf.bool, wait=False)
    else:
        ops.request_variable(0, name="is ahead", shape=[], dtype=tf.bool)
        ops.save_variable(tf.constant(True), name="goes on")
        push_zeros(optimizer, variables)
    optimizer.kungfu_algorithm.finish()


def model_with(optimizer):
    tf.keras.utils.set_random_seed(8)
    layers = [tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential([tf.keras.Input((3,)), *layers])
    model.compile(optimizer, "mse")
    return model


def data(batches):
    x = np.random.default_rng([9, kf.rank()]).normal(size=(4 * batches, 3))
    return tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).batch(4)


def of_unknown_length(dataset):
    """Of unknown length: an epoch ends in the middle of a step that was traced."""
    return dataset.filter(lambda x, y: True)


def case_fit_ends_with_what_the_owners_have():
    """Peers have 4, 12 and 20 batches, and nobody waits for one that has no more.

    A second `fit` goes on, and the file is a plain one's.
    """
    batches = 4 + 8 * kf.rank()
    model = model_with(served(tf.keras.optimizers.Adam(0.01), staleness=3))
    losses = [
        loss
        for _ in range(2)
        for loss in model.fit(of_unknown_length(data(batches)), epochs=3, verbose=0).history["loss"]
    ]
    assert losses[-1] < losses[0] / 2
    pushes = 6 * sum(4 + 8 * rank for rank in range(kf.size()))
    assert int(model.optimizer.iterations) == pushes
    weights = training.flat_weights(model)
    rows = ops.all_gather(weights, name="weights").numpy()
    np.testing.assert_array_equal(rows, np.broadcast_to(weights, rows.shape))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        if kf.is_root():
            model.save(path)
            loaded = tf.keras.models.load_model(path)
            assert [v.shape for v in loaded.optimizer.variables[2:]] == [
                v.shape for v in model.trainable_variables for _ in range(2)
            ]
    kf.barrier()


def case_without_staleness_it_is_synchronous():
    """Bit by bit."""
    trained = []
    for wrap in (lambda o: served(o, staleness=0), optimizers.SynchronousSGDOptimizer):
        model = model_with(wrap(tf.keras.optimizers.Adam(0.01)))
        model.fit(data(10 + kf.rank()), epochs=2, shuffle=False, verbose=0)
        trained.append(model.get_weights())
    for ours, plain in zip(*trained, strict=True):
        np.testing.assert_array_equal(ours, plain)


def case_each_push_is_of_all_variables():
    variables = variables_of(6)
    optimizer = served(tf.keras.optimizers.SGD(RATE))
    optimizer.build(variables)
    try:
        push(optimizer, gradients_of(0)[:-1], variables[:-1])
    except kf.errors.UnimplementedError as error:
        assert "has no gradient of" in str(error)
    else:
        raise AssertionError("a push without a variable was taken")
