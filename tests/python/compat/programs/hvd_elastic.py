"""A program for Horovod and TensorFlow 2: it goes on while processes come, go and fail.

horovodrun -np 2 python hvd_elastic.py --plan '{"4": "fail"}'

The plan says what happens before a step: a number of processes that is asked for, "fail" (the last
process meets an error), "die" (it is killed), "ask" (it is killed, and the others ask for its
value), or "raise" (its program ends with an error).
"""

import argparse
import json
import os
import signal
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from horovod.common.exceptions import HorovodInternalError

import kungfu_tf as kf

parser = argparse.ArgumentParser()
parser.add_argument("--plan", type=json.loads)
args = parser.parse_args()
RATE, STEPS = 0.05, 12
MOST = 3  # processes: only then is the last one lost

hvd.init()
me = float(os.environ["HOROVOD_RANK"])
print("begins as", hvd.rank(), "of", hvd.size())
weight = tf.Variable(10.0 + hvd.rank(), dtype=tf.float64)
optimizer = tf.optimizers.SGD(RATE * hvd.size())


def add_first():
    """Process sets of before a reset have no number any more."""
    if hvd.size() > 1:
        assert hvd.add_process_set([0]).process_set_id == 1


add_first()


@tf.function
def train_step(step):
    with tf.GradientTape() as tape:
        loss = (weight - step - me) ** 2 / 2
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, [weight])
    optimizer.apply_gradients(zip(gradients, [weight], strict=True))


def expected(state):
    """The weight after the steps of the processes that say that they have made them."""
    value = 10.0
    for step, (who, rate) in enumerate(state.made):
        value -= rate * (value - step - np.mean(who))
    return value


def happens(state, what):
    is_last = hvd.rank() == hvd.size() - 1
    if isinstance(what, int) and hvd.rank() == 0 and what != hvd.size():
        kf.propose_new_size(what)
        deadline = time.monotonic() + 120
        while state._host_messages.empty():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    if what == "fail" and is_last and not failed:
        failed.append(state.step)
        weight.assign(1000.0)
        raise HorovodInternalError
    if what in ("die", "ask", "raise") and hvd.size() == MOST:
        if is_last and what == "raise":
            raise RuntimeError("as planned")
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "ask":
            hvd.broadcast(weight, MOST - 1)


failed = []


@hvd.elastic.run
def train(state):
    print("trains from step", state.step)
    while state.step < STEPS:
        happens(state, args.plan.get(str(state.step)))
        train_step(tf.constant(state.step, tf.float64))
        who = hvd.allgather_object(me)
        state.made = [*state.made, (who, float(np.asarray(optimizer.learning_rate)))]
        state.step += 1
        state.commit()


def on_state_reset():
    optimizer.learning_rate.assign(RATE * hvd.size())
    add_first()
    print("reset to", hvd.size())


state = hvd.elastic.TensorFlowState([weight], step=0, made=[])
state.register_reset_callbacks([on_state_reset])
train(state)
assert abs(float(weight) - expected(state)) < 1e-6, (float(weight), expected(state))
print("sizes:", [len(who) for who, _ in state.made])
