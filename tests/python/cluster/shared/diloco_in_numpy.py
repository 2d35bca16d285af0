"""A training of a few tensors by DiLoCo, and the same in NumPy. All peers simulate all of them.

A peer's gradient of a tensor v is tanh(v − target), where each step and peer has its own targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.optimizers import DiLoCoOptimizer
from kungfu_tf.upstream import generations

keras = tf.keras
keras.backend.set_floatx("float64")
RATE, MOMENTUM = 1 / 16, 7 / 8
OUTER_RATE, OUTER_MOMENTUM = 5 / 8, 3 / 4
TOLERANCE = 1e-12
NAMES = ["a/kernel", "a/bias", "b/kernel", "c/kernel", "c/bias", "d/scale"]
SHAPES = [(4, 3), (3,), (3, 5), (5, 2), (2,), ()]
LAYERS = [[0, 1], [2], [3, 4], [5]]  # their variables, by number


Arrays = list[Any]


def targets(steps: int) -> list[Arrays]:
    """For each step and variable [rank, ...]."""
    random = np.random.default_rng(3)
    return [[random.normal(size=(kf.size(), *shape)) for shape in SHAPES] for _ in range(steps)]


def first() -> Arrays:
    """The tensors to begin with, the same on all peers."""
    random = np.random.default_rng(4)
    return [random.normal(size=shape) for shape in SHAPES]


class Simulation:
    """The docstring of `DiLoCoOptimizer`, with all peers' models in one place, [rank, ...].

    Args:
        every: As for `DiLoCoOptimizer`, as the next three.
        fragments: Their number.
        overlap: The steps from a meeting to its end.
        merge: The part of a peer's own model that stays then.
        islands: The ranks of each island; none: each peer is one.
    """

    def __init__(
        self,
        every: int,
        fragments: int,
        overlap: int,
        merge: float,
        islands: Sequence[Sequence[int]] = (),
    ) -> None:
        self.every, self.overlap, self.merge = every, overlap, merge if overlap else 0.0
        self.islands = islands
        self.anchors = first()
        self.outer_speeds = [np.zeros_like(a) for a in self.anchors]
        self.values = [np.stack([a] * kf.size()) for a in self.anchors]
        self.speeds = [np.zeros_like(v) for v in self.values]
        self.parts = [
            [i for layer in LAYERS[f::fragments] for i in layer] for f in range(fragments)
        ]
        self.offsets = [f * every // fragments for f in range(fragments)]
        self.samples = np.zeros([fragments, kf.size()])  # since a fragment's last meeting
        self.steps = 0
        self.met = [0] * fragments
        self.under_way: dict[int, dict[int, Any]] = {}  # the means, by fragment
        self.meetings = [0] * fragments

    def step(self, of_step: Arrays, samples: Any = 1.0) -> None:
        """A step of all peers.

        Args:
            of_step: The targets.
            samples: How many samples each peer has.
        """
        self.steps += 1
        self.samples += samples
        for i, target in enumerate(of_step):
            gradient = self.in_islands(np.tanh(self.values[i] - target), samples)
            self.speeds[i] = MOMENTUM * self.speeds[i] - RATE * gradient
            self.values[i] = self.values[i] + self.speeds[i]
        for f, offset in enumerate(self.offsets):
            if (self.steps - offset - self.overlap) % self.every == 0 and f in self.under_way:
                self.end(f)
            if (self.steps - offset) % self.every == 0:
                self.begin(f)
                if not self.overlap:
                    self.end(f)

    def in_islands(self, gradient: Any, samples: Any) -> Any:
        """The gradients, [rank, ...], averaged over the samples of each island."""
        weights = np.broadcast_to(samples, [kf.size()])
        result = gradient.copy()
        for ranks in map(list, self.islands):
            result[ranks] = np.average(gradient[ranks], axis=0, weights=weights[ranks])
        return result

    def begin(self, f: int) -> None:
        """The meeting of a fragment."""
        self.met[f] = self.steps
        self.meetings[f] += 1
        moved = {i: self.anchors[i] - self.values[i] for i in self.parts[f]}
        self.under_way[f] = {i: np.average(m, 0, self.samples[f]) for i, m in moved.items()}
        self.samples[f] = 0

    def end(self, f: int, merge: float | None = None) -> None:
        """The end of a fragment's meeting."""
        merge = self.merge if merge is None else merge
        for i, mean in self.under_way.pop(f).items():
            step = OUTER_RATE * mean
            self.outer_speeds[i] = OUTER_MOMENTUM * self.outer_speeds[i] - step
            self.anchors[i] = self.anchors[i] + OUTER_MOMENTUM * self.outer_speeds[i] - step
            self.values[i] = merge * self.values[i] + (1 - merge) * self.anchors[i]

    def finish(self) -> None:
        """What is under way ends, and fragments meet that had steps since."""
        for f in list(self.under_way):
            self.end(f)
        for f in range(len(self.parts)):
            if self.met[f] != self.steps:
                self.begin(f)
                self.end(f, merge=0.0)
        self.values = [np.stack([a] * kf.size()) for a in self.anchors]


def wrapped(
    every: int, fragments: int = 1, overlap: int = 0, merge: float = 0.5, **options: Any
) -> Any:
    """SGD in a `DiLoCoOptimizer`, with the rates of the simulation."""
    return DiLoCoOptimizer(
        keras.optimizers.SGD(RATE, momentum=MOMENTUM),
        outer=keras.optimizers.SGD(OUTER_RATE, momentum=OUTER_MOMENTUM, nesterov=True),
        every=every,
        fragments=fragments,
        overlap=overlap,
        merge=merge,
        **options,
    )


def variables_of() -> list[Any]:
    """Those of a training, in float64."""
    return [tf.Variable(value, name=name) for value, name in zip(first(), NAMES, strict=True)]


def step_of(
    optimizer: Any, variables: list[Any], mode: str = "function"
) -> Callable[[Arrays], None]:
    """A step, which takes this peer's targets.

    Args:
        optimizer: A wrapped optimizer.
        variables: What it trains.
        mode: "eager" or "function".
    """

    def step(of_step: Arrays) -> None:
        gradients = [tf.tanh(v - t) for v, t in zip(variables, of_step, strict=True)]
        optimizer.apply_gradients(list(zip(gradients, variables, strict=True)))

    return tf.function(step) if mode == "function" else step


def mine(of_step: Arrays) -> Arrays:
    """This peer's targets."""
    return [tf.constant(target[kf.rank()]) for target in of_step]


def algorithm_of(optimizer: Any) -> Any:
    """The algorithm of a wrapped optimizer."""
    [algorithm] = generations.algorithms_of(optimizer)
    return algorithm


def assert_close(found: Sequence[Any], expected: Sequence[Any], what: str) -> None:
    """Each tensor is within the tolerance."""
    for one, other, name in zip(found, expected, NAMES, strict=True):
        off = np.linalg.norm(one - other) / max(np.linalg.norm(other), 1e-3)
        assert off <= TOLERANCE, f"{what}: {name} is off by {off:.2g}"


def assert_same(optimizer: Any, variables: list[Any], simulation: Simulation, what: str) -> None:
    """So are this peer's model and the anchors."""
    values = [value[kf.rank()] for value in simulation.values]
    assert_close([v.numpy() for v in variables], values, f"{what}, the model")
    anchors = [a.numpy() for a in algorithm_of(optimizer).anchors]
    assert_close(anchors, simulation.anchors, f"{what}, the anchors")
