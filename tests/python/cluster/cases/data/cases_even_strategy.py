"""Another strategy, while pipelines ask each other for batches."""

from __future__ import annotations

import threading

import numpy as np
import tensorflow as tf
from harness import each

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [{"np": 2}]


def in_a_loop(dataset, after_step):
    for step, _ in enumerate(kf.data.even(dataset)):
        after_step(step)


def in_fit(dataset, after_step):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.01)), "mse")
    told = tf.keras.callbacks.LambdaCallback(on_batch_end=lambda step, logs: after_step(step))
    model.fit(dataset, verbose=0, callbacks=[told])


TRAIN = {"loop": in_a_loop, "fit": in_fit}


@each(train=["loop", "fit"])
def case_between_two_steps_nobody_waits_for_an_answer(train):
    """One that another strategy would end."""
    changed = threading.Event()

    def batches():
        for number in range(4):
            if number == 2 and kf.rank() == 1:
                changed.wait()
            yield np.zeros([1, 1]), np.zeros([1, 1])

    steps = []

    def after_step(step):
        steps.append(step)
        if step == 1:
            kf.ops.set_strategy("RING")
            changed.set()

    spec = tf.TensorSpec([1, 1], tf.float32)
    try:
        dataset = tf.data.Dataset.from_generator(batches, output_signature=(spec, spec))
        TRAIN[train](dataset, after_step)
    finally:
        changed.set()
        kf.ops.set_strategy("AUTO")
    assert steps == [0, 1, 2, 3]
