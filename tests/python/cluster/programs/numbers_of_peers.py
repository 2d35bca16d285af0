"""The last peer is lost, and the others count how many there are.

numbers_of_peers.py FOLDER WHAT, as 2 peers: which number of peers the result is made with. The
other one repeats the step's exchange alone. "samples" and "warm-up" are for 3 peers.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.compression import Cast
from kungfu_tf.exchange.mean_gradients import mean_gradients
from kungfu_tf.exchange.synchronous_means import synchronous_means
from kungfu_tf.optimizers.noise_scale import GradientNoiseScale
from kungfu_tf.optimizers.synchronous_averaging import SynchronousAveraging
from kungfu_tf.replicas import sample_weights
from kungfu_tf.upstream.hook import Hook

v1 = tf.compat.v1
HAS_BEGUN = Path(sys.argv[1]) / "has begun"
RATE = 0.0625
ME, PEERS = kf.rank(), kf.size()


def marked(function: Callable[[], Any]) -> Any:
    """What a step returns. When it runs, and a number has been read, the other peer learns it."""

    @tf.function(autograph=False)
    def step() -> Any:
        with tf.control_dependencies([kf.ops.cluster_size()]):
            tf.numpy_function(HAS_BEGUN.touch, [], [])
        return function()

    return step()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def lose_the_last() -> None:
    if ME == PEERS - 1:
        until(HAS_BEGUN.exists)
        os.kill(os.getpid(), signal.SIGKILL)


def sum_by_a_codec() -> None:
    """That of one peer."""
    lose_the_last()
    variable = tf.Variable([0.0, 0.0])
    gradient = tf.constant([3.0, 5.0])
    codec = Cast("bfloat16")

    def exchange() -> Any:
        return mean_gradients([gradient], [variable], name="g", op="sum", compression=codec)

    [result] = marked(exchange)
    assert result.numpy().tolist() == [3.0, 5.0], result


def weights_of_samples() -> None:
    """That of the only peer is 1."""
    lose_the_last()
    variable, gradient = tf.Variable(0.0), tf.constant(3.0)

    def exchange() -> Any:
        with sample_weights.samples(4, sample_weights.own_total):
            return synchronous_means([gradient], [variable], name="s", sums_rows=False)

    [result] = marked(exchange)
    assert result.numpy() == 3.0, result


def central_model() -> None:
    """center + α·size·(mean − center) + momentum·(center − the one before), by hand."""
    averaging = SynchronousAveraging(alpha=1 / 8, momentum=1 / 2)
    variable = tf.Variable([1.0, 3.0][ME])
    step = tf.function(lambda: averaging.before_update([variable]), autograph=False)
    step()
    assert variable.numpy() == 7 / 8 * [1, 3][ME] + 1 / 8 * 2
    lose_the_last()
    marked(lambda: averaging.before_update([variable]))
    center, drawn = 2 + 1 / 8 * (9 / 8 - 2), 7 / 8 * 9 / 8 + 1 / 8 * 2
    assert variable.numpy() == drawn, variable
    step()
    assert variable.numpy() == 7 / 8 * drawn + 1 / 8 * center, variable


def learning_rates() -> None:
    """They stay those of two until all have agreed on another number."""
    lose_the_last()
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.5, 10, 0.9)
    rate = kf.callbacks.scale_learning_rate(schedule)
    warmup = kf.callbacks.LearningRateWarmupCallback(0.5, warmup_epochs=1)
    marked(lambda: kf.ops.all_reduce(1.0, name="step"))
    assert float(rate(0)) == warmup.rate_of_epoch(1) == 1.0
    assert kf.callbacks.scale_learning_rate(0.5) == 1.0
    if peer.elastic():
        kf.resize()
        assert float(rate(0)) == warmup.rate_of_epoch(1) == 0.5
        assert kf.callbacks.scale_learning_rate(0.5) == 0.5


class Rates(tf.keras.callbacks.Callback):
    """Behind the warm-up: how far it is, of each batch. Rank 2 is lost before its fourth one."""

    def __init__(self) -> None:
        super().__init__()
        self.progress: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if ME == 2 and len(self.progress) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        rate = float(np.asarray(self.model.optimizer.learning_rate))
        self.progress.append((rate / RATE - 1) / (peer.agreed_size() - 1))


def warm_up_amid_an_epoch() -> None:
    """Of 60 samples 18 are done in 3 steps, and 4 for each step of the two that are left."""
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile(kf.optimizers.SynchronousSGDOptimizer(tf.keras.optimizers.SGD(RATE)), "mse")
    rates = Rates()
    callbacks = [kf.callbacks.LearningRateWarmupCallback(RATE, warmup_epochs=1), rates]
    x = np.ones((60, 1), np.float32)
    kf.elastic.fit(model, x, y=x, batch_size=2, verbose=0, callbacks=callbacks)
    assert np.all(np.diff(rates.progress) > 0), rates.progress
    np.testing.assert_allclose(rates.progress[:4], [0, 0.1, 0.2, 0.3], atol=1e-6)
    np.testing.assert_allclose(rates.progress[-1], 1 - 4 / 60, atol=1e-2)


def noise_of_gradients() -> None:
    """A step of one peer is not measured."""
    variable = tf.Variable([0.0, 0.0])
    gradient = tf.constant([[1.0, 2.0], [3.0, 4.0]][ME])
    monitor = GradientNoiseScale(4, interval=1, alpha=0.5)
    monitor.gradients([gradient], [variable])
    before = monitor.metrics["noise_scale"].numpy()
    # |g|² is 5 and 25, |mean|² is 13: S = (15 - 13) / (1/4 - 1/8), G² = (8·13 - 4·15) / 4
    np.testing.assert_allclose(before, 16 / 11, rtol=1e-6)
    lose_the_last()
    marked(lambda: monitor.gradients([gradient], [variable]))
    assert monitor.metrics["noise_scale"].numpy() == before


class HearsOfALoss(Hook):
    """After the second step: rank 0 goes on at once, rank 1 when it knows that rank 2 is lost."""

    def __init__(self) -> None:
        self.steps = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.steps += 1
        if self.steps == 2 and ME == 0:
            HAS_BEGUN.touch()
        elif self.steps == 2:
            lose_the_last()
            until(lambda: kf.size() == 2)


class Samples(kf.policy.BasePolicy):
    def __init__(self) -> None:
        self.seen: list[int] = []

    def after_step(self, training: Any) -> None:
        self.seen.append(training.trained_samples)


def samples_of_a_session() -> None:
    """Those of the step after which the third was lost are those of two."""
    with tf.Graph().as_default():
        weight = v1.get_variable("weight", [], use_resource=True)
        sgd = kf.optimizers.SynchronousSGDOptimizer(v1.train.GradientDescentOptimizer(0.1))
        train = sgd.minimize(weight**2, v1.train.get_or_create_global_step())
        kf.variables.get_or_create_batch_size(4)
        samples = Samples()
        hook = kf.hooks.PolicyHook([samples], epoch_size=100, epoch_num=1, init_batch_size=4)
        with v1.train.MonitoredTrainingSession(hooks=[HearsOfALoss(), hook]) as session:
            for _ in range(3):
                session.run(train)
    assert samples.seen == [12, 20, 28], samples.seen


def main() -> None:
    WHAT[sys.argv[2]]()
    assert kf.size() == PEERS - 1
    print("it counts", flush=True)


WHAT = {
    "sum": sum_by_a_codec,
    "weights": weights_of_samples,
    "center": central_model,
    "rates": learning_rates,
    "warm-up": warm_up_amid_an_epoch,
    "noise": noise_of_gradients,
    "samples": samples_of_a_session,
}

if __name__ == "__main__":
    main()
