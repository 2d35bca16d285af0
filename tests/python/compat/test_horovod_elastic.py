"""`horovod.elastic` in a process without others. test_horovod_programs.py has several."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from kungfu_tf import compat, errors


@pytest.fixture
def elastic() -> Iterator[Any]:
    finders = list(sys.meta_path)
    compat.install("horovod")
    import horovod.tensorflow

    horovod.tensorflow.init()
    yield horovod.tensorflow.elastic
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.split(".")[0] == "horovod"]:
        del sys.modules[name]


def test_a_failure_begins_anew_with_the_last_commit(elastic: Any) -> None:
    weight = tf.Variable(0.0)
    state = elastic.TensorFlowState([weight], step=0)
    seen, resets = [], []
    state.register_reset_callbacks([lambda: resets.append(state.step)])

    @elastic.run
    def train(state: Any) -> str:
        while state.step < 4:
            seen.append((state.step, float(weight)))
            weight.assign_add(1.0)
            state.step += 1
            if state.step == 3 and not resets:
                raise errors.UnavailableError("a peer is gone")
            if state.step == 2:
                state.commit()
        return "ended"

    assert train(state) == "ended"
    assert seen == [(0, 0.0), (1, 1.0), (2, 2.0), (2, 2.0), (3, 3.0)]
    assert resets == [2]


def test_it_gives_up_after_failures_without_a_commit(elastic: Any) -> None:
    from horovod.common.exceptions import HorovodInternalError

    calls = []

    @elastic.run
    def train(state: Any) -> None:
        calls.append(state.step)
        raise HorovodInternalError("again")

    with pytest.raises(HorovodInternalError, match="again"):
        train(elastic.TensorFlowState([tf.Variable(0.0)], step=0))
    assert calls == [0] * 5


@pytest.mark.parametrize("error", [ValueError("wrong"), errors.InvalidArgumentError("wrong")])
def test_an_error_of_the_program_ends_it(elastic: Any, error: Exception) -> None:
    @elastic.run
    def train(state: Any) -> None:
        raise error

    with pytest.raises(type(error), match="wrong"):
        train(elastic.TensorFlowState([tf.Variable(0.0)]))


@pytest.mark.parametrize("skips", [True, False])
def test_an_interrupt_keeps_what_is_not_committed(elastic: Any, skips: bool) -> None:
    from horovod.common.exceptions import HostsUpdatedInterrupt

    weight, seen = tf.Variable(0.0), []
    state = elastic.TensorFlowState([weight], step=0)

    @elastic.run
    def train(state: Any) -> None:
        seen.append((state.step, float(weight)))
        if not float(weight):
            weight.assign(1.0)
            state.step = 1
            raise HostsUpdatedInterrupt(skip_sync=skips)

    train(state)
    # A synchronisation gives all the objects that rank 0 has committed, and its variables.
    assert seen == [(0, 0.0), (int(skips), 1.0)]


def test_the_state_of_a_model_has_its_optimizer(elastic: Any) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD(0.5, momentum=0.5)
    state = elastic.TensorFlowKerasState(model, optimizer, epoch=3)
    before = [np.array(w) for w in model.get_weights()]
    gradients = [tf.ones_like(w) for w in before]
    pairs = list(zip(gradients, model.trainable_variables, strict=True))
    optimizer.apply_gradients(pairs)
    state.epoch = 4
    state.restore()
    assert state.epoch == 3 and int(optimizer.iterations.numpy()) == 0
    optimizer.apply_gradients(pairs)  # without a momentum of the other update
    for now, then in zip(model.get_weights(), before, strict=True):
        np.testing.assert_allclose(now, then - 0.5, rtol=1e-6)
