"""Optimizers that average models, against a simulation in NumPy of what their docstrings say.

All peers simulate all of them: a linear model, trained by gradient descent with momentum.
"""

from __future__ import annotations

import tempfile

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each, exhaustive

import kungfu_tf as kf
from kungfu_tf import ops, optimizers, topology
from kungfu_tf.native import libraries
from kungfu_tf.optimizers.pair_averaging import PairAveraging, random_partner
from kungfu_tf.upstream import generations

# All versions stay: in lockstep a peer may be ahead of another.
JOBS = [
    {"np": 3, "env": {"KUNGFU_STORE_VERSIONS": "64"}},
    {"np": 2, "cases": ["checkpoints_of_a_session_are_of_the_average"]},  # bit by bit
]

STEPS = 30
RATE, MOMENTUM = 1 / 16, 7 / 8  # exact in any precision
SWITCH = 11
TOLERANCE = 1e-10
NAMES = ["sma", "central", "adaptive", "pair", "pair, by variable", "atc", "awc"]

tf.keras.backend.set_floatx("float64")


def batches():
    """[step, rank, sample, feature], and what the model should say."""
    random = np.random.default_rng(5)
    x = random.normal(size=(STEPS, kf.size(), 8, 3))
    return x, np.sin(x.sum(axis=-1, keepdims=True)) + np.arange(kf.size())[:, None, None]


def first_weights():
    """Different on each peer: [rank, weight]; the last is the bias."""
    return np.random.default_rng(6).normal(size=(kf.size(), 4))


def gradients(weights, x, y):
    """Of the mean squared error of each peer's batch."""
    error = x @ weights[:, :3, None] + weights[:, None, 3:] - y
    by_weight = 2 * np.mean(error * x, axis=1)
    return np.concatenate([by_weight, 2 * np.mean(error, axis=1)], axis=1)


class Sma:
    def __init__(self, alpha):
        self.alpha = alpha

    def before(self, weights, step):
        return (1 - self.alpha) * weights + self.alpha * weights.mean(axis=0)

    def after(self, weights, speeds, step):
        return weights, speeds

    def exchanged(self, g, step):
        return g


class CentralSma(Sma):
    """The paper's, with a central model that has momentum."""

    def __init__(self, alpha, momentum):
        super().__init__(alpha)
        self.momentum = momentum
        self.now = None

    def before(self, weights, step):
        mean = weights.mean(axis=0)
        if self.now is None:
            self.now = self.last = mean
        z, z_before = self.now, self.last
        pull = self.alpha * kf.size() * (mean - z)
        self.now, self.last = z + pull + self.momentum * (z - z_before), z
        return (1 - self.alpha) * weights + self.alpha * z


class Pair(Sma):
    def __init__(self):
        self.published = None

    def before(self, weights, step):
        if self.published is None:
            return weights
        partners = [partner_of(rank, step - 1) for rank in range(kf.size())]
        return (weights + self.published[partners]) / 2

    def after(self, weights, speeds, step):
        self.published = weights.copy()
        return weights, speeds


class Mixed(Sma):
    def __init__(self, graph, style):
        self.graph = graph
        self.style = style

    def before(self, weights, step):
        return self.graph.at(step, kf.size()) @ weights if self.style == "awc" else weights

    def after(self, weights, speeds, step):
        mixed = self.graph.at(step, kf.size()) @ weights if self.style == "atc" else weights
        return mixed, speeds


class Adaptive(Sma):
    def before(self, weights, step):
        return super().before(weights, step) if step < SWITCH else weights

    def after(self, weights, speeds, step):
        if step == SWITCH - 1:
            return (np.broadcast_to(a[0], a.shape).copy() for a in (weights, speeds))
        return weights, speeds

    def exchanged(self, g, step):
        return g if step < SWITCH else np.broadcast_to(g.mean(axis=0), g.shape)


def partner_of(rank, step):
    """As `random_partner` says it on that rank."""
    seed = tf.constant([step, 0], tf.int64)
    shift = tf.random.stateless_uniform([], seed, 1, kf.size(), tf.int32)
    return (rank + int(shift)) % kf.size()


def simulated(method, weights):
    speeds = np.zeros([kf.size(), 4])
    for step, (x, y) in enumerate(zip(*batches(), strict=True)):
        g = method.exchanged(gradients(weights, x, y), step)
        weights = method.before(weights, step)
        speeds = MOMENTUM * speeds - RATE * g
        weights, speeds = method.after(weights + speeds, speeds, step)
    return weights


METHODS = {
    "sma": (lambda o: optimizers.SynchronousAveragingOptimizer(o, alpha=0.3), lambda: Sma(0.3)),
    "central": (
        lambda o: optimizers.SynchronousAveragingOptimizer(o, alpha=0.2, momentum=0.5),
        lambda: CentralSma(0.2, 0.5),
    ),
    "adaptive": (
        lambda o: optimizers.AdaptiveSGDOptimizer(o, SWITCH, alpha=0.3),
        lambda: Adaptive(0.3),
    ),
    "pair": (lambda o: optimizers.wrap(o, lambda: PairAveraging(lockstep=True)), Pair),
    "pair, by variable": (
        lambda o: optimizers.wrap(o, lambda: PairAveraging(False, lockstep=True)),
        Pair,
    ),
    "atc": (
        lambda o: optimizers.DecentralizedSGDOptimizer(o, topology=topology.one_peer_exponential()),
        lambda: Mixed(topology.one_peer_exponential(), "atc"),
    ),
    "awc": (
        lambda o: optimizers.DecentralizedSGDOptimizer(o, style="awc"),
        lambda: Mixed(topology.base_graph(), "awc"),
    ),
}


def own_model():
    model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1)])
    mine = first_weights()[kf.rank()]
    model.set_weights([mine[:3, None], mine[3:]])
    return model


def check(trained, method, first):
    """This peer's weights are those that the simulation has, and no other peer's."""
    expected = simulated(METHODS[method][1](), first)
    np.testing.assert_allclose(trained, expected[kf.rank()], rtol=TOLERANCE, atol=TOLERANCE)
    differ = np.abs(expected - expected[kf.rank()]).max(axis=1) > 1e-3
    assert np.count_nonzero(differ) == (0 if method == "adaptive" else kf.size() - 1)


@each(method=NAMES, mode=["eager", "function"])
@exhaustive(mode=["function"])
def case_keras(method, mode):
    if mode == "eager" and method == "pair, by variable":
        raise Skip("eager operations by variable are seen in the other cases")
    families = [tf.keras.optimizers]
    if not training.is_keras_3():
        families.append(tf.keras.optimizers.legacy)
    for family in families:
        model = own_model()
        optimizer = METHODS[method][0](family.SGD(RATE, momentum=MOMENTUM))
        step = training.step_of(model, optimizer)
        step = tf.function(step) if mode == "function" else step
        for x, y in zip(*batches(), strict=True):
            step(tf.constant(x[kf.rank()]), tf.constant(y[kf.rank()]))
        check(training.flat_weights(model), method, first_weights())
        assert exchanges(optimizer, method) == [STEPS] * (method == "sma")


def case_pairs_average_variables_that_are_updated_apart():
    """As with losses of their own for parts of a model: one optimizer, an update for each."""
    model = own_model()
    optimizer = METHODS["pair"][0](tf.keras.optimizers.SGD(RATE, momentum=MOMENTUM))
    variables = model.trainable_variables
    optimizer.build(variables)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        for pair in zip(tape.gradient(loss, variables), variables, strict=True):
            optimizer.apply_gradients([pair])

    for x, y in zip(*batches(), strict=True):
        step(tf.constant(x[kf.rank()]), tf.constant(y[kf.rank()]))
    check(training.flat_weights(model), "pair", first_weights())


def exchanges(optimizer, method):
    """How often the models were averaged, where that has a name of its own."""
    [algorithm] = generations.algorithms_of(optimizer)
    return [libraries.completed(f"{algorithm.name}/model/0")] if method == "sma" else []


@each(method=NAMES, resource=[True, False])
@exhaustive(resource=[True])
def case_v1(method, resource):
    v1 = tf.compat.v1
    mine = first_weights()[kf.rank()]
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = v1.placeholder(tf.float64, [8, 3]), v1.placeholder(tf.float64, [8, 1])
        with v1.variable_scope("net", use_resource=resource):
            kernel = v1.get_variable("kernel", initializer=tf.constant(mine[:3, None]))
            bias = v1.get_variable("bias", initializer=tf.constant(mine[3:]))
        loss = tf.reduce_mean(tf.square(x @ kernel + bias - y))
        optimizer = METHODS[method][0](v1.train.MomentumOptimizer(RATE, MOMENTUM))
        train = optimizer.minimize(loss, global_step=v1.train.get_or_create_global_step())
        session.run(v1.global_variables_initializer())
        for all_x, all_y in zip(*batches(), strict=True):
            session.run(train, {x: all_x[kf.rank()], y: all_y[kf.rank()]})
        trained = training.flat(session.run([kernel, bias]))
    # A session in which the peers meet begins with rank 0's weights.
    meets = not method.startswith("pair")
    first = np.broadcast_to(first_weights()[0], [kf.size(), 4]) if meets else first_weights()
    check(trained, method, first)


def case_partners_are_all_others_and_the_same_in_every_run():
    asked = [int(random_partner(tf.constant(step, tf.int64))) for step in range(300)]
    assert asked == [partner_of(kf.rank(), step) for step in range(300)]
    others = sorted(set(range(kf.size())) - {kf.rank()})
    counts = np.bincount(asked, minlength=kf.size())
    assert sorted(set(asked)) == others
    assert counts[others].min() > 100
    of_all = kf.ops.all_gather(tf.constant(asked), name="partners").numpy()
    assert (np.sort(of_all, axis=0) == np.arange(kf.size())[:, None]).all()  # nobody is asked twice


@each(fuse=[True, False])
def case_nobody_waits_for_a_straggler(fuse):
    """The last peer is in its first step until the others have made 100."""
    model = own_model()
    optimizer = optimizers.PairAveragingOptimizer(
        tf.keras.optimizers.SGD(RATE / 10), fuse_requests=fuse
    )
    step, name = training.step_of(model, optimizer), f"made 100 steps/{fuse}"
    held = kf.rank() == kf.size() - 1

    @tf.function
    def first(x, y):
        for other in range(kf.size() - 1):
            ops.request_variable(other, name=name, shape=[], dtype=tf.bool)
        step(x, y)

    x, y = (tf.constant(part[0, kf.rank()]) for part in batches())
    run = tf.function(step)
    if held:
        first(x, y)
    for _ in range(100):
        run(x, y)
    if not held:
        ops.save_variable(tf.constant(True), name=name)
    kf.barrier()


def case_a_pull_is_begun_when_a_step_ends():
    """What is published after it has come is for the step after the next."""
    algorithm = PairAveraging(partner=lambda step: (kf.rank() + 1) % kf.size())
    variable = tf.Variable([float(kf.rank())])
    tag = f"{algorithm.name}/model/0/float32"
    ops.save_variable(variable, name=tag)
    kf.barrier()  # from now on all have published something
    algorithm.before_update([variable])
    algorithm.after_update([variable])
    kf.barrier()
    # A second request of the same peer: when it has come, the first, which is as large, has too.
    other = (kf.rank() + 1) % kf.size()
    ops.request_variable(other, name=tag, shape=[1], dtype=tf.float32, wait=False)
    kf.barrier()
    ops.save_variable(tf.constant([100.0]), name=tag)
    kf.barrier()
    algorithm.before_update([variable])
    np.testing.assert_array_equal(variable, [(kf.rank() + other) / 2])
    assert libraries.completed(tag) == 2


@each(method=["sma", "pair"])
def case_a_session_ends_with_the_average(method):
    """What rank 0 leaves in its last checkpoint, also if it has just saved its own model."""
    with tempfile.TemporaryDirectory() as folder:
        models = trained_in_session(method, folder, save_checkpoint_steps=1)[-1]
        assert np.abs(models - models[0]).max() > 1e-3
        if kf.is_root():
            saved = tf.train.load_variable(tf.train.latest_checkpoint(folder), "kernel")
            np.testing.assert_allclose(saved, models.mean(axis=0), rtol=1e-14)


@each(when=["steps", "secs"])
def case_checkpoints_of_a_session_are_of_the_average(when):
    """Whenever rank 0 makes them, and each peer goes on from its own model."""
    often = {"save_checkpoint_secs": 1e-9} if when == "secs" else {"save_checkpoint_steps": 2}
    unsaved = trained_in_session("sma", None)
    with tempfile.TemporaryDirectory() as folder:
        models = trained_in_session("sma", folder if kf.is_root() else None, **often)
        if kf.is_root():
            paths = tf.train.get_checkpoint_state(folder).all_model_checkpoint_paths
            saved = {int(tf.train.load_variable(p, "global_step")): p for p in paths}
            assert set(saved) == ({1, 2, 3, 4, 5} if when == "secs" else {0, 2, 4, 5}), saved
            for step in saved.keys() - {0}:
                kernel = tf.train.load_variable(saved[step], "kernel")
                np.testing.assert_allclose(kernel, models[step - 1].mean(axis=0), rtol=1e-14)
    if kf.size() == 2:
        np.testing.assert_array_equal(models, unsaved)
    else:  # where peers outnumber cores, the order in which three are added up is that of the name
        np.testing.assert_allclose(models, unsaved, rtol=1e-12)
    assert np.abs(models[:, 1:] - models[:, :1]).max(axis=(1, 2, 3)).min() > 1e-3


def trained_in_session(method, folder, **often):
    """[step, rank, ...]: the weights that each peer has after each step.

    There are other ones that began with the same tensor.
    """
    own = []
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x, y = (tf.constant(part[0, kf.rank()]) for part in batches())
        first = tf.constant(first_weights()[0, :3, None])
        kernel, twin = (v1.get_variable(name, initializer=first) for name in ("kernel", "twin"))
        optimizer = METHODS[method][0](v1.train.GradientDescentOptimizer(RATE))
        loss = tf.reduce_mean(tf.square(x @ kernel - y)) + tf.reduce_sum(tf.square(twin))
        train = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        hooks = [kf.initializer.BroadcastGlobalVariablesHook()]
        with v1.train.MonitoredTrainingSession(
            checkpoint_dir=folder, hooks=hooks, log_step_count_steps=None, **often
        ) as session:
            for _ in range(5):
                session.run(train)
                own.append(session.run(kernel))
    return np.swapaxes(kf.ops.all_gather(np.array(own)).numpy(), 0, 1)


def case_average_variables():
    mine = first_weights()
    variables = [tf.Variable(mine[kf.rank()]), tf.Variable(2 * mine[kf.rank()])]
    with kf.average_variables(variables):
        for factor, variable in zip((1, 2), variables, strict=True):
            np.testing.assert_allclose(variable, factor * mine.mean(axis=0), rtol=1e-14)
            assert kf.ops.consensus(variable)
        variables[1].assign([7.0, 7, 7, 7])
    np.testing.assert_array_equal(variables[0], mine[kf.rank()])
    np.testing.assert_array_equal(variables[1], [7.0] * 4)
    model = own_model()
    with kf.average_variables(model):
        np.testing.assert_allclose(training.flat_weights(model), mine.mean(axis=0), rtol=1e-14)
    np.testing.assert_array_equal(training.flat_weights(model), mine[kf.rank()])
