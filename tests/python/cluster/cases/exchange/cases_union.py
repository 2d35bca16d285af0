"""Peers whose steps give gradients to different variables, or whose variables differ."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf
from harness import Skip, each
from support import operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import (
    AdaptiveSGDOptimizer,
    PairAveragingOptimizer,
    SynchronousAveragingOptimizer,
    SynchronousSGDOptimizer,
)
from kungfu_tf.upstream import generations

JOBS = [{"np": 2}]

v1 = tf.compat.v1
keras = tf.keras
FORMS = ["eager", "function"]


def as_form(form, function):
    return tf.function(function) if form == "function" else function


def two_heads(prefix):
    """A trunk, two heads of one shape, and a variable that nobody uses."""
    values = {"trunk": 1.0, "head0": 2.0, "head1": 5.0, "unused": 7.0}
    return [tf.Variable([value], name=f"{prefix}_{name}") for name, value in values.items()]


def loss_of_mine(variables):
    """Of this peer's head; its gradients: trunk [2, 50][rank], head [1, 10][rank]."""
    trunk, *heads = variables
    return tf.reduce_sum(trunk * heads[kf.rank()] * (10.0 if kf.rank() else 1.0))


EXPECTED = [26.0, 0.5, 5.0, None]


def numbers(gradients):
    return [None if g is None else float(tf.convert_to_tensor(g)[0]) for g in gradients]


@each(form=FORMS)
def case_tape(form):
    """A missing gradient counts as zero; what has none anywhere stays None."""
    variables = two_heads(f"tape_{form}")
    kinds, before = [], libraries.completed("tape/union")

    def step():
        with tf.GradientTape() as tape:
            loss = loss_of_mine(variables)
        gradients = kf.DistributedGradientTape(tape).gradient(loss, variables)
        kinds.append([g is None for g in gradients])
        return [g for g in gradients if g is not None]

    run = as_form(form, step)
    for _ in range(3):
        assert numbers(run()) == EXPECTED[:3]
    assert kinds[0] == [False, False, False, True]
    assert libraries.completed("tape/union") - before == 1


def sgd(generation):
    if generation == "v1":
        return v1.train.GradientDescentOptimizer(1.0)
    if generation == "legacy":
        return keras.optimizers.legacy.SGD(1.0)
    return keras.optimizers.SGD(1.0)


def generations_here():
    of_keras_2 = [p for p in generations.packages() if p.generation == 2]
    return ["keras", "v1", *(["legacy"] if of_keras_2 else [])]


@each(form=FORMS)
def case_optimizers(form):
    """Of all generations: as one process on the batches of both peers."""
    for generation in generations_here():
        variables = two_heads(f"{generation}_{form}")
        if generation == "keras" and any(p.generation == 3 for p in generations.packages()):
            variables = [keras.Variable(v, name=f"k{v.name[:-2]}") for v in variables]
        optimizer = SynchronousSGDOptimizer(sgd(generation))
        as_form(form, functools.partial(step_on_my_head, optimizer, variables))()
        trained = [1.0 - 26.0, 2.0 - 0.5, 5.0 - 5.0, 7.0]
        np.testing.assert_array_equal(values_of(variables), trained)


def step_on_my_head(optimizer, variables):
    native = [generations.native(v) for v in variables]
    with tf.GradientTape() as tape:
        loss = loss_of_mine(native)
    gradients = tape.gradient(loss, native)
    optimizer.apply_gradients(zip(gradients, variables, strict=True))


def values_of(variables):
    return [float(generations.native(v).numpy()[0]) for v in variables]


@each(method=["averaging", "adaptive", "pairs"])
def case_models_are_averaged_by_variable(method):
    """The heads must not be averaged into each other either."""
    make = {
        "averaging": lambda o: SynchronousAveragingOptimizer(o, alpha=1.0),
        "adaptive": lambda o: AdaptiveSGDOptimizer(o, 10, alpha=1.0),
        "pairs": PairAveragingOptimizer,
    }[method]
    optimizer = make(keras.optimizers.SGD(0.0))
    variables = two_heads(method)
    as_keras = (
        [keras.Variable(v, name=v.name[:-2]) for v in variables] if is_keras_3() else variables
    )
    for _ in range(3):
        step_on_my_head(optimizer, as_keras)
        kf.barrier()
    np.testing.assert_array_equal(values_of(as_keras), [1.0, 2.0, 5.0, 7.0])


def is_keras_3():
    return any(p.generation == 3 for p in generations.packages())


@each(form=FORMS, other=["sparse", "dense"])
def case_tables(form, other):
    """Each peer looks up its own; with "dense" the second one is used as a whole on rank 1."""
    tables = [tf.Variable(tf.ones([4, 2]), name=f"table{i}_{form}_{other}") for i in range(2)]

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(tables[kf.rank()], [1, 1, 3]))
            if other == "dense":
                loss += 3.0 * tf.reduce_sum(tables[1] if kf.rank() else tf.gather(tables[1], [0]))
        gradients = kf.DistributedGradientTape(tape).gradient(loss, tables)
        kinds.append([isinstance(g, tf.IndexedSlices) for g in gradients])
        return [tf.convert_to_tensor(g) for g in gradients]

    kinds = []
    first, second = as_form(form, step)()
    looked_up = np.array([[0, 0], [1, 1], [0, 0], [0.5, 0.5]])
    np.testing.assert_array_equal(first, looked_up)
    whole = 1.5 + np.array([[1.5, 1.5], [0, 0], [0, 0], [0, 0]]) if other == "dense" else 0.0
    np.testing.assert_array_equal(second, looked_up + whole)
    assert kinds[0] == [True, other == "sparse"]


@each(sums_rows=[True, False])
def case_tables_of_an_optimizer(sums_rows):
    optimizer = sgd("v1") if sums_rows else keras.optimizers.SGD(1.0)
    tables = [tf.Variable(tf.ones([4, 2]), name=f"table{i}_of_{sums_rows}") for i in range(2)]
    if not sums_rows and is_keras_3():
        tables = [keras.Variable(t, name=t.name[:-2]) for t in tables]
    native = [generations.native(t) for t in tables]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(native[kf.rank()], [1, 1, 3]))
    gradients = tape.gradient(loss, native)
    SynchronousSGDOptimizer(optimizer).apply_gradients(zip(gradients, tables, strict=True))
    for table in native:
        np.testing.assert_array_equal(table, [[1, 1], [0, 0], [1, 1], [0.5, 0.5]])


def case_equal_peers_pay_nothing():
    """Where all have the same gradients the program is as if nothing had been agreed."""
    variables = two_heads("equal")

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variables[0] * variables[2])
        return kf.DistributedGradientTape(tape).gradient(loss, variables)

    nodes = [op.type for op in step.get_concrete_function().graph.get_operations()]
    assert nodes.count("KungfuGroupAllReduce") == 1
    [node] = [
        op
        for op in step.get_concrete_function().graph.get_operations()
        if op.type == "KungfuGroupAllReduce"
    ]
    assert node.get_attr("N") == 2
    assert not [kind for kind in nodes if kind.startswith("Kungfu") and "Group" not in kind]
    before = operations_done()
    for _ in range(5):
        assert numbers(step()) == [5.0, None, 1.0, None]
    assert operations_done() - before == 5


def case_losses_by_turns():
    """Of one list: what the second loss does not reach has no gradient in its steps."""
    variables = two_heads("turns")

    def gradients_of(which):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variables[0] * (variables[1] if which else 1.0))
        return numbers(kf.DistributedGradientTape(tape).gradient(loss, variables))

    for _ in range(2):
        assert gradients_of(1) == [2.0, 1.0, None, None]
        assert gradients_of(0) == [1.0, None, None, None]
    assert libraries.completed("tape/union") >= 2


@each(fewer=[False, True])
def case_a_retrace_on_one_peer_waits_for_nobody(fewer):
    variables = two_heads(f"retrace_{fewer}")

    @tf.function
    def step(x, trains_head=True):
        with tf.GradientTape() as tape:
            head = variables[1 + kf.rank()] if trains_head else 1.0
            loss = tf.reduce_sum(x) * tf.reduce_sum(variables[0] * head)
        return kf.DistributedGradientTape(tape).gradient(loss, variables)[:3]

    def told():
        return numbers(step(tf.ones([1])))

    assert told() == [3.5, 0.5, 0.5]
    if kf.rank() == 1:
        found = numbers(step(tf.ones([2]), trains_head=not fewer))
        assert found == ([2.0, 0.5, 0.0] if fewer else [6.0, 0.5, 1.0])
    else:
        assert told() == ([2.0, 0.5, 0.0] if fewer else [6.0, 0.5, 1.0])


class Heads(keras.Model):
    """Of two tasks; each peer trains one of them."""

    def __init__(self):
        super().__init__()
        self.trunk = keras.layers.Dense(3)
        self.heads = [keras.layers.Dense(1, name=f"head{i}") for i in range(2)]

    def both(self, x):
        trunk = self.trunk(x)
        return [head(trunk) for head in self.heads]

    def call(self, x):
        return self.both(x)[kf.rank()]


@each(how=["function", "run_eagerly", "accumulated", "loss scale"])
def case_fit(how):
    """As one process that trains both tasks, on the batches of both peers."""
    if how == "accumulated" and not is_keras_3():
        raise Skip("Keras 2 cannot accumulate")
    random = np.random.default_rng(5)
    x, y = (random.normal(size=(2, 16, n)).astype("float32") for n in (4, 1))
    micro_steps = 2 if how == "accumulated" else None

    def plain(**options):  # Adam counts steps that only accumulate, too, in Keras 3.3
        return keras.optimizers.SGD(0.05, momentum=0.9, **options)

    def optimizer():
        made = plain(**({"gradient_accumulation_steps": micro_steps} if micro_steps else {}))
        if how != "loss scale":
            return made
        scale = {"initial_scale": 8.0} if is_keras_3() else {"dynamic": False, "initial_scale": 8.0}
        home = keras.optimizers if is_keras_3() else keras.mixed_precision
        return home.LossScaleOptimizer(made, **scale)

    def model_of(optimizer):
        keras.utils.set_random_seed(3)
        model = Heads()
        model.compile(optimizer, "mse", run_eagerly=how == "run_eagerly")
        model(x[0])
        return model

    model = model_of(SynchronousSGDOptimizer(optimizer()))
    mine = x[kf.rank()], y[kf.rank()]
    # Which head an inference takes depends on the rank, too.
    callback = kf.callbacks.BroadcastGlobalVariablesCallback(check_every=None)
    model.fit(*mine, batch_size=4, epochs=2, shuffle=False, verbose=0, callbacks=[callback])

    alone = model_of(plain())
    of_an_update = 4 * (micro_steps or 1)
    for first in [*range(0, 16, of_an_update)] * 2:
        rows = slice(first, first + of_an_update)
        with tf.GradientTape() as tape:
            outputs = [alone.both(part[rows])[i] for i, part in enumerate(x)]
            pairs = zip(outputs, y, strict=True)
            losses = [tf.reduce_mean(tf.square(o - p[rows])) for o, p in pairs]
            loss = tf.add_n(losses) / 2
        gradients = tape.gradient(loss, alone.trainable_variables)
        alone.optimizer.apply_gradients(zip(gradients, alone.trainable_variables, strict=True))
    for ours, theirs in zip(model.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


@each(how=["tape", "optimizer", "broadcast", "number", "shape", "all_reduce", "group_broadcast"])
def case_variables_in_another_order(how):
    """All peers get an error that names both variables."""
    a, b = (tf.Variable([1.0, 2.0], name=f"{name}_of_{how}") for name in "ab")
    order = [a, b] if kf.rank() == 0 else [b, a]
    if how == "number":
        order = [a, b][: 1 + kf.rank()]
        a = b
    if how == "shape":
        order = [a, tf.Variable(tf.ones([2 - kf.rank()]), name="b_of_shape")]
        a = b

    def exchange():
        if how in ("broadcast", "number", "shape"):
            return kf.initializer.broadcast_variables(order)
        if how == "all_reduce":
            return kf.ops.group_all_reduce([None, *order])
        if how == "group_broadcast":
            return kf.ops.group_broadcast(order)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(a * b)
        if how == "tape":
            return kf.DistributedGradientTape(tape).gradient(loss, order)
        optimizer = SynchronousSGDOptimizer(sgd("v1"))
        return optimizer.apply_gradients(zip(tape.gradient(loss, order), order, strict=True))

    text = raised_by(tf.errors.InvalidArgumentError, exchange)
    said = [f"Number {int(a is b)} is ", "on rank 0", "on rank 1", f"'{a.name}'", f"'{b.name}'"]
    said += ["missing"] if how == "number" else []
    assert all(part in text for part in said), text
    for variable in order:
        assert variable.numpy().tolist() in ([1.0, 2.0], [1.0, 1.0], [1.0])


def case_names_that_are_the_same():
    """Numbers differ, prefixes of a loaded model are missing: what it is tells the rest."""
    mine = [f"model_{kf.rank()}/dense_{7 * kf.rank() + i}/kernel" for i in range(2)]
    mine += ["adam/model_dense_kernel_momentum" if kf.rank() else "adam/dense_kernel_momentum"]
    mine += ["model/last/kernel" if kf.rank() else "last/kernel"]
    variables = [tf.Variable([float(kf.rank())], name=name) for name in mine]
    kf.initializer.broadcast_variables(variables, root=1)
    assert [v.numpy().tolist() for v in variables] == [[1.0]] * 4


def case_a_name_of_another_variable_is_no_prefix():
    order = [tf.Variable([1.0], name=name) for name in ("w", "new_w")]
    order = order[::-1] if kf.rank() else order
    text = raised_by(
        tf.errors.InvalidArgumentError, lambda: kf.initializer.broadcast_variables(order)
    )
    assert "'w:0'" in text
    assert "'new_w:0'" in text


@each(what=["order", "heads", "models", "broadcast"])
def case_sessions(what):
    """Where a graph is built nobody can ask: the operations themselves differ."""
    with tf.Graph().as_default(), v1.Session() as session:
        names = ["a", "b"] if kf.rank() == 0 or what in ("heads", "models") else ["b", "a"]
        variables = [v1.get_variable(name, [2]) for name in names]
        used = variables[kf.rank()] if what in ("heads", "models") else tf.add_n(variables)
        if what == "broadcast":
            run = kf.initializer.broadcast_variables(variables)
        else:
            wrap = SynchronousAveragingOptimizer if what == "models" else SynchronousSGDOptimizer
            optimizer = wrap(v1.train.GradientDescentOptimizer(1.0))
            run = optimizer.minimize(tf.reduce_sum(used), var_list=variables)
        session.run(v1.global_variables_initializer())
        text = raised_by(tf.errors.InvalidArgumentError, session.run, run)
    assert "differs between rank" in text
