"""Trains a small CNN on Fashion-MNIST until it is good enough, with batches of several kinds.

kungfu-run -np 2 python noise_scale.py REPORT SEED RATE KIND...

KIND is "fixed": small batches; "policy": they follow the gradient noise scale; "noise": the same
policy is told numbers that have nothing to do with it, each as likely to ask for a small batch as
for a large one; and, after "policy", "constant" and "shuffled": it is told the median of what was
measured, or what was measured in another order; "mean": batches of the policy's mean size from the
first on. Rank 0 adds a line of JSON to REPORT for each.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fashion_mnist
import numpy as np
import tensorflow as tf
from convergence import TRAINED, accuracy, network

import kungfu_tf as kf

BATCH, LARGEST, INTERVAL = 16, 512, 100
TARGET, WINDOW = 0.87, 4  # reached by the mean of so many accuracies
JUDGED = TRAINED // 8  # samples between them
MOST = 6 * TRAINED  # samples
keras = tf.keras


class Course(kf.policy.BasePolicy):
    """Ends the training at the target, and notes how it went there.

    Attributes:
        steps: How many it has taken.
        samples: The same, of all peers.
        points: Of each interval, at its end: samples, batch of all peers, median noise scale.
    """

    def __init__(self, model: keras.Model, data: fashion_mnist.Data) -> None:
        self._model = model
        self._validation = (data.train_images[TRAINED:], data.train_labels[TRAINED:])
        self._measured: list[float] = []
        self._accuracies: list[float] = []
        self.points: list[tuple[int, int, float]] = []
        self.steps, self.samples = 0, 0

    @property
    def is_good(self) -> bool:
        last = self._accuracies[-WINDOW:]
        return len(last) == WINDOW and statistics.mean(last) >= TARGET

    def after_step(self, training: kf.policy.Training) -> None:
        self.steps, self.samples = training.step, training.trained_samples
        self._measured.append(training.noise_scale)
        if training.step % INTERVAL == 0:
            batch = training.batch_size * training.size
            self.points.append((self.samples, batch, statistics.median(self._measured)))
            self._measured.clear()
        if kf.is_root() and self.samples // JUDGED > len(self._accuracies):
            self._accuracies.append(accuracy(self._model, *self._validation))
            if self.is_good or self.samples >= MOST:
                training.stop()


class Told(kf.policy.BasePolicy):
    """A policy that sees a noise scale that was not measured.

    Args:
        policy: It.
        values: What it sees in each interval, and then again from the first on.
    """

    def __init__(self, policy: kf.policy.BasePolicy, values: Sequence[float]) -> None:
        self._policy = policy
        self._values = values

    def after_step(self, training: kf.policy.Training) -> None:
        interval = (training.step - 1) // INTERVAL
        self._policy.after_step(_Seen(training, self._values[interval % len(self._values)]))


class _Seen:
    """A training, but for its noise scale."""

    def __init__(self, training: kf.policy.Training, noise_scale: float) -> None:
        self._training = training
        self.noise_scale = noise_scale

    def __getattr__(self, name: str) -> Any:
        return getattr(self._training, name)


def trained(
    data: fashion_mnist.Data,
    batch: int,
    rate: float,
    seed: int,
    policies: list[kf.policy.BasePolicy],
) -> Course:
    """From the first step to the target. `batch` is of one peer."""
    keras.utils.set_random_seed(seed)
    model = network(data.train_images.shape[1:])
    optimizer = kf.optimizers.MonitorGradientNoiseScaleOptimizer(
        keras.optimizers.SGD(rate, momentum=0.9), batch
    )
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    dataset = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
    dataset = kf.data.shard(dataset.take(TRAINED)).cache()
    dataset = dataset.shuffle(TRAINED // kf.size(), seed=100 * seed + kf.rank()).batch(batch)
    course = Course(model, data)
    callback = kf.callbacks.PolicyCallback([*policies, course])
    epochs = math.ceil(MOST / TRAINED)
    model.fit(dataset, epochs=epochs, shuffle=False, verbose=0, callbacks=[callback])
    return course


def plan(kind: str, seed: int, followed: Course | None) -> tuple[int, list[kf.policy.BasePolicy]]:
    """The first batch of a peer, and what changes it. `followed` is the course of "policy"."""
    policy = kf.policy.NoiseScaleBatchSizePolicy(LARGEST, min_batch_size=BATCH, interval=INTERVAL)
    if kind == "fixed":
        return BATCH, []
    if kind == "policy":
        return BATCH, [policy]
    random = np.random.default_rng(seed)
    if kind == "noise":
        sizes = kf.size() * np.exp(random.uniform(np.log(BATCH), np.log(LARGEST), MOST))
        return BATCH, [Told(policy, sizes.tolist())]
    if followed is None:
        raise ValueError(f"{kind!r} comes after 'policy'")
    if kind == "mean":
        return round(followed.samples / followed.steps / kf.size()), []
    measured = [noise_scale for _, _, noise_scale in followed.points]
    if kind == "constant":
        return BATCH, [Told(policy, [statistics.median(measured)])]
    return BATCH, [Told(policy, random.permutation(measured).tolist())]


def main() -> None:
    report, seed, rate = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    data = fashion_mnist.load()
    followed = None
    for kind in sys.argv[4:]:
        batch, policies = plan(kind, seed, followed)
        course = trained(data, batch, rate * batch / BATCH, seed, policies)
        followed = course if kind == "policy" else followed
        if kf.is_root():
            found = {"kind": kind, "seed": seed, "reached": course.is_good, "points": course.points}
            found |= {"steps": course.steps, "samples": course.samples}
            with report.open("a") as lines:
                print(json.dumps(found), file=lines)


if __name__ == "__main__":
    main()
