"""N peers × batch B train like one process × batch N·B."""

from __future__ import annotations

import os

import tensorflow as tf
import training
from harness import Skip, each, exhaustive
from support import operations_done

import kungfu_tf as kf
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import Algorithm, SynchronousSGDOptimizer

# These models are small: only when told so do their peers work in each other's memory.
JOBS = [
    {"np": 4},
    {
        "np": 2,
        "env": {"KUNGFU_DIRECT_BYTES": "0"},
        "id": "direct",
        "cases": ["keras_fit", "gradient_tape"],
    },
]
IS_DIRECT = os.environ.get("KUNGFU_DIRECT_BYTES") == "0"
OPTIMIZERS = ["sgd", "momentum", "adam"]
TOLERANCE = 1e-12
BUCKETS = 3  # of at most 1200 bytes

tf.keras.backend.set_floatx("float64")


def distributed(optimizer):
    """With buckets so small that there are several of them."""
    return SynchronousSGDOptimizer(optimizer, bucket_bytes=1200)


def assert_every_bucket_travelled(optimizer, times):
    counts = training.completed(optimizer)
    assert len(counts) == BUCKETS, counts
    assert set(counts) == {times}, counts


def reduced_directly():
    return libraries.statistics()["direct"]


@each(name=OPTIMIZERS)
@exhaustive(name=["adam"])
def case_keras_fit(name):
    data = training.epoch()
    for make in training.keras_optimizers(name):
        single = training.fit_single(training.dense_model(), make(), training.whole(data))
        optimizer, before = distributed(make()), reduced_directly()
        run = training.fit(training.dense_model(), optimizer, training.mine(data))
        assert len(run.weights) == training.STEPS
        assert (reduced_directly() > before) == IS_DIRECT
        assert training.differences(run, single, TOLERANCE) == []
        assert_every_bucket_travelled(optimizer, training.STEPS)


@each(name=OPTIMIZERS)
@exhaustive(name=["adam"])
def case_gradient_tape(name):
    data = training.epoch()
    make = training.keras_optimizers(name)[0]
    single = training.fit_single(training.dense_model(), make(), training.whole(data))
    before, directly = operations_done(), reduced_directly()
    run = training.tape_loop(
        *(training.dense_model(), make(), training.mine(data)),
        lambda: kf.DistributedGradientTape(tf.GradientTape(), bucket_bytes=1200),
    )
    agreed = 1  # once, on which variables have gradients
    assert operations_done() - before == agreed + BUCKETS * training.STEPS
    assert reduced_directly() - directly == (BUCKETS * training.STEPS if IS_DIRECT else 0)
    assert training.differences(run, single, TOLERANCE) == []


@each(name=OPTIMIZERS, variables=["resource", "ref"])
@exhaustive(name=["momentum"])
def case_session(name, variables):
    data = training.epoch()
    make = training.V1_OPTIMIZERS[name]
    single = training.session_loop(make(), training.whole(data), variables == "resource")
    optimizer = distributed(make())
    run = training.session_loop(optimizer, training.mine(data), variables == "resource")
    assert training.differences(run, single, TOLERANCE) == []
    assert_every_bucket_travelled(optimizer, training.STEPS)


@each(name=OPTIMIZERS)
@exhaustive(name=["momentum"])
def case_session_with_an_optimizer_of_legacy_keras(name):
    if training.is_keras_3():
        raise Skip("Keras 3 has no legacy optimizers")
    data = training.epoch()
    make = training.keras_optimizers(name)[1]
    single = training.session_loop(make(), training.whole(data), use_resource=True)
    run = training.session_loop(distributed(make()), training.mine(data), use_resource=True)
    assert training.differences(run, single, TOLERANCE) == []


@each(name=OPTIMIZERS)
@exhaustive(name=["adam"])
def case_float32_after_one_step(name):
    data = training.samples(training.BATCH * kf.size(), "float32")
    for make in training.keras_optimizers(name):
        single = training.fit_single(
            training.dense_model("float32"), make(), training.whole(data), epochs=1
        )
        run = training.fit(
            training.dense_model("float32"), distributed(make()), training.mine(data), epochs=1
        )
        assert [w for w in training.differences(run, single, 1e-6) if "moved" not in w] == []


class Sum(Algorithm):
    """Wrong: the learning rate is multiplied by the number of peers."""

    def gradients(self, gradients, variables, *, step=None):
        return kf.ops.group_all_reduce(gradients, op="sum", name=f"{self.name}/sum")


@each(what=["nothing is exchanged", "sum", "shifted data"])
@exhaustive(what=["sum"])
def case_what_is_wrong_is_seen(what):
    """The checks of the cases above, on methods that are wrong."""
    data = training.epoch()
    make = training.keras_optimizers("sgd")[0]
    single = training.fit_single(training.dense_model(), make(), training.whole(data))
    mine = training.mine(data)
    if what == "shifted data" and kf.rank() == 1:
        mine = training.shifted(mine)
    algorithm = {"nothing is exchanged": Algorithm, "sum": Sum}.get(what)
    optimizer = wrap(make(), algorithm) if algorithm else distributed(make())
    run = training.fit(training.dense_model(), optimizer, mine)
    found = training.differences(run, single, TOLERANCE)
    assert ("the peers' weights differ" in found) == (what == "nothing is exchanged")
    assert all(f"variable {i} is off" in " ".join(found) for i in range(6)), found


class AverageModels(Algorithm):
    """Everybody updates alone; then the models are averaged. For plain SGD it is the same."""

    def after_update(self, variables):
        name = f"{self.name}/gradients/0"
        means = kf.ops.group_all_reduce([v.read_value() for v in variables], op="mean", name=name)
        return [v.assign(mean) for v, mean in zip(variables, means, strict=True)]


class Backwards(Algorithm):
    """Changes the models before the update and takes it back after it: the same again."""

    def gradients(self, gradients, variables, *, step=None):
        return kf.ops.group_all_reduce(gradients, op="mean", name=f"{self.name}/gradients/0")

    def before_update(self, variables):
        return [v.assign(v.read_value() + 4.0) for v in variables]

    def after_update(self, variables):
        return [v.assign(v.read_value() - 4.0) for v in variables]


@each(algorithm=["AverageModels", "Backwards"])
@exhaustive(algorithm=["Backwards"])
def case_algorithms_may_change_the_variables(algorithm):
    """In every generation of optimizers they do it in the right order."""
    data = training.epoch()
    make_algorithm = globals()[algorithm]
    for make in training.keras_optimizers("sgd"):
        single = training.fit_single(training.dense_model(), make(), training.whole(data))
        optimizer = wrap(make(), make_algorithm)
        run = training.fit(training.dense_model(), optimizer, training.mine(data))
        run.states = []  # not exchanged
        assert training.differences(run, single, TOLERANCE) == []
        assert training.completed(optimizer) == [training.STEPS]
    for use_resource in (True, False):
        make = training.V1_OPTIMIZERS["sgd"]
        single = training.session_loop(make(), training.whole(data), use_resource)
        optimizer = wrap(make(), make_algorithm)
        run = training.session_loop(optimizer, training.mine(data), use_resource)
        assert training.differences(run, single, TOLERANCE) == []
        assert training.completed(optimizer) == [training.STEPS]
