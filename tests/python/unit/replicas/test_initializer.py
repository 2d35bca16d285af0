"""The initializer in one process: what it says, and that alone it does nothing."""

from __future__ import annotations

import tracemalloc
import types

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.ops import uneven_rows
from kungfu_tf.replicas import equality

keras, v1 = tf.keras, tf.compat.v1


def named(*names):
    return [types.SimpleNamespace(name=name) for name in names]


def gathered(*rows):
    """What all peers' digests are after they have been gathered."""
    return uneven_rows.cut(np.concatenate([uneven_rows.with_length(row) for row in rows]))


@pytest.fixture
def hosts(monkeypatch):
    """As if there were many peers."""
    monkeypatch.setattr(peer, "name_of", lambda rank: f"10.0.0.{rank}:7")


def test_a_difference_is_described_by_variable_rank_and_host(hosts):
    message = equality._difference(
        gathered([1, 2, 3], [1, 2, 4], [1, 5, 4]), named("a", "b", "c"), "after step 7"
    )
    assert message.startswith(
        "2 of 3 variables differ from rank 0's after step 7: 'b' on rank 2 (10.0.0.2:7), "
        "'c' on rank 1 (10.0.0.1:7) and rank 2 (10.0.0.2:7). "
    )


def test_of_many_differences_five_are_named(hosts):
    names = named(*"abcdefgh")
    message = equality._difference(gathered(range(8), range(1, 9)), names, "now")
    assert "8 of 8" in message
    assert "'e' on rank 1 (10.0.0.1:7), and 3 more. " in message and "'f'" not in message
    message = equality._difference(gathered([0], *[[1]] * 9), named("a"), "now")
    assert "rank 5 (10.0.0.5:7) and 4 more ranks. " in message and "rank 6" not in message


def test_different_numbers_of_variables_are_a_difference(hosts):
    message = equality._difference(gathered([1], [1, 2], [1]), named("a"), "now")
    assert message == (
        "the peers have different numbers of variables now: 1 on rank 0 (10.0.0.0:7) and "
        "rank 2 (10.0.0.2:7), 2 on rank 1 (10.0.0.1:7)"
    )


def test_digests_see_every_bit():
    values = [np.array([0.0, 1.0]), np.array([-0.0, 1.0]), np.array([0.0, 1.0]).T, np.float64(0)]
    digests = equality.digests_of(values)
    assert digests.dtype == np.int64
    assert digests[0] != digests[1] and digests[0] == digests[2] and len(digests) == 4


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_digests_of_variables_are_those_of_their_values_and_copy_nothing(dtype):
    variables = [tf.Variable(tf.cast(tf.eye(1024), dtype)) for _ in range(4)]
    values = [v.numpy() for v in variables]
    tracemalloc.start()
    digests = equality.digests_of_variables(variables)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (digests == equality.digests_of(values)).all()
    assert peak < values[0].nbytes / 2


@pytest.mark.parametrize(
    "make",
    [kf.callbacks.BroadcastGlobalVariablesCallback, kf.initializer.BroadcastGlobalVariablesHook],
)
def test_check_every(make):
    make(check_every=None)
    with pytest.raises(ValueError, match="at least 1"):
        make(check_every=0)


def test_the_callback_alone():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = kf.callbacks.BroadcastGlobalVariablesCallback()
    history = model.fit(np.ones((8, 2)), np.ones((8, 1)), verbose=0, callbacks=[callback])
    assert len(history.history["loss"]) == 1


def test_broadcast_alone():
    variable = tf.Variable([1.0])
    kf.initializer.broadcast_variables([variable])
    np.testing.assert_array_equal(variable, [1.0])
    with pytest.raises(RuntimeError, match="broadcast_variables"):
        kf.initializer.BroadcastGlobalVariablesOp()


def test_the_hook_and_the_op_alone():
    with tf.Graph().as_default():
        weight = v1.get_variable("weight", initializer=3.0)
        train = v1.train.GradientDescentOptimizer(1.0).minimize(weight)
        broadcast = kf.initializer.BroadcastGlobalVariablesOp()
        hooks = [kf.initializer.BroadcastGlobalVariablesHook()]
        with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            session.run(broadcast)
            session.run(train)
            assert session.run(weight) == 2.0
