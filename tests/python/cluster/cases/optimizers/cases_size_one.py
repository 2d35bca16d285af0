"""A job of one: nothing is exchanged, and the result is that of the plain optimizer."""

from __future__ import annotations

import numpy as np
import training
from harness import each

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [{"np": 1}]


def assert_same(run, plain):
    for found, expected in zip(run.after, plain.after, strict=True):
        np.testing.assert_array_equal(found, expected)


@each(name=["momentum", "adam"])
def case_fit_is_bitwise_that_of_the_plain_optimizer(name):
    data = training.epoch("float32")
    for make in training.keras_optimizers(name):
        plain = training.fit_single(
            training.dense_model("float32"), make(), training.whole(data), epochs=2
        )
        optimizer = SynchronousSGDOptimizer(make())
        model, dataset = training.dense_model("float32"), training.mine(data)
        assert_same(training.fit(model, optimizer, dataset, epochs=2), plain)
        assert training.completed(optimizer) == []


@each(name=["momentum", "adam"])
def case_session_is_bitwise_that_of_the_plain_optimizer(name):
    data = training.epoch()
    make = training.V1_OPTIMIZERS[name]
    plain = training.session_loop(make(), training.whole(data), use_resource=True)
    optimizer = SynchronousSGDOptimizer(make())
    assert_same(training.session_loop(optimizer, training.mine(data), use_resource=True), plain)
    assert training.completed(optimizer) == []


def case_shard_is_everything():
    dataset = training.whole(training.samples(4))
    assert kf.data.shard(dataset) is dataset
