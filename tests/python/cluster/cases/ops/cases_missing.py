"""What only some peers execute ends by its deadline, with an error that says who is missing."""

from __future__ import annotations

import tensorflow as tf
from harness import each, exhaustive
from support import raised_by

import kungfu_tf as kf

JOBS = [{"np": 3, "env": {"KUNGFU_COLLECTIVE_TIMEOUT": "8"}}]
NEEDS_KERAS = False

TooLate = tf.errors.DeadlineExceededError


def case_in_a_cond():
    @tf.function
    def run(flag):
        return tf.cond(flag, lambda: kf.ops.all_reduce(1.0, name="in a cond"), lambda: 0.0)

    if kf.rank() == 1:
        assert run(tf.constant(False)) == 0
    else:
        text = raised_by(TooLate, run, tf.constant(True))
        assert "in a cond" in text
        assert "rank 1" in text


def case_the_next_operations():
    """Of other names, and of the same: its number was given up by those who had it."""
    assert kf.ops.all_reduce(1.0, name="elsewhere") == kf.size()
    if kf.rank() == 1:
        raised_by(TooLate, lambda: kf.ops.all_reduce(1.0, name="in a cond"))
    assert kf.ops.all_reduce(1.0, name="in a cond") == kf.size()


@each(kind=["reduce", "gather", "broadcast", "exchange"])
@exhaustive()
def case_what_one_has_given_up_is_an_error_of_the_others(kind):
    """They get no sum of this call and of the next one."""

    def call(number):
        x = tf.fill([kf.size()], 10 * number + kf.rank())
        run = {
            "reduce": lambda: kf.ops.all_reduce(x, name=kind)[:1],
            "gather": lambda: kf.ops.all_gather(x, name=kind)[:, 0],
            "broadcast": lambda: kf.ops.broadcast(x, root=1, name=kind)[:1],
            "exchange": lambda: kf.ops.all_to_all(x, name=kind),
        }
        return run[kind]().numpy().tolist()

    if kf.rank() == 0:
        assert "rank 1" in raised_by(TooLate, lambda: call(7))
        kf.ops.save_variable(0, name=f"gave up {kind}")
    else:
        kf.ops.request_variable(0, name=f"gave up {kind}", shape=[], dtype=tf.int32, timeout=90)
        raised_by(TooLate, lambda: call(7))
    for number in range(3):
        of_ranks = [10 * number + rank for rank in range(kf.size())]
        expected = {"reduce": [sum(of_ranks)], "broadcast": of_ranks[1:2]}
        assert call(number) == expected.get(kind, of_ranks)


def case_in_eager_code():
    if kf.rank() > 0:
        text = raised_by(TooLate, lambda: kf.ops.all_gather(1.0, name="eager"))
        assert "rank 0" in text


def case_barrier_of_the_process():
    if kf.rank() == 2:
        text = raised_by(kf.errors.DeadlineExceededError, kf.barrier)
        assert "rank 0" in text
        assert "rank 1" in text


def case_a_fit_of_rank_0_alone():
    """The last of this file: the others' next `fit` would be one behind."""
    if kf.rank() == 0:
        model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1)])
        model.compile(kf.optimizers.SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.1)), "mse")
        text = raised_by(TooLate, lambda: model.fit(tf.zeros([2, 1]), tf.zeros([2, 1]), verbose=0))
        assert "not all peers call fit" in text
        assert "rank 1" in text
