"""A training of a few tensors, whose gradients travel by a codec, and the same in NumPy.

A peer's gradient of a tensor v is v − target, where each step and peer has targets of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import training
from support import numpy_dtype

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer

RATE = 1 / 16
# Matrices that are compressed, one of four axes, and what is too small for it.
SHAPES = [(12, 10), (3, 3, 4, 8), (7,), (4, 3), ()]
TOLERANCE = 1e-12

Arrays = list[Any]


def targets(steps: int, shapes: Sequence[Any] = SHAPES) -> list[Arrays]:
    """For each step and shape those of all peers, [rank, ...]."""
    random = np.random.default_rng(9)
    return [[random.normal(size=(kf.size(), *shape)) for shape in shapes] for _ in range(steps)]


def first(shapes: Sequence[Any] = SHAPES) -> Arrays:
    """The tensors to begin with, the same on all peers."""
    random = np.random.default_rng(10)
    return [random.normal(size=shape) for shape in shapes]


def variables_of(shapes: Sequence[Any] = SHAPES) -> list[Any]:
    """Those of a training, in float64."""
    return [tf.Variable(value, name=f"v{i}") for i, value in enumerate(first(shapes))]


class PowerSGD:
    """The docstring of `kf.compression.PowerSGD`, with all peers' parts in one place."""

    def __init__(self, rank: int, start_step: int = 0, min_rate: float = 2) -> None:
        self.rank, self.start_step, self.min_rate = rank, start_step, min_rate
        self.errors: dict[int, Any] = {}
        self.rights: dict[int, Any] = {}
        self.exchanges = 0

    def means(self, gradients: Arrays) -> Arrays:
        """For each gradient of all peers, [rank, ...], what they go on with."""
        self.exchanges += 1
        return [self._mean(i, g) for i, g in enumerate(gradients)]

    def _mean(self, i: int, g: Any) -> Any:
        shape = g.shape[1:]
        if len(shape) < 2:
            return g.mean(axis=0)
        m, k = int(np.prod(shape[:-1])), shape[-1]
        if (m + k) * self.rank * self.min_rate > m * k:
            return g.mean(axis=0)
        if i not in self.errors:
            number = len(self.errors)
            self.errors[i] = np.zeros([len(g), m, k])
            self.rights[i] = np.random.default_rng(number).uniform(-1, 1, [k, self.rank])
        if self.exchanges <= self.start_step:
            return g.mean(axis=0)
        matrices = g.reshape(len(g), m, k) + self.errors[i]
        left, _ = np.linalg.qr((matrices @ self.rights[i]).mean(axis=0))
        self.rights[i] = (matrices.transpose(0, 2, 1) @ left).mean(axis=0)
        decoded = left @ self.rights[i].T
        self.errors[i] = matrices - decoded
        return decoded.reshape(shape)


def simulated(
    codec: Any, steps: int, *, factor: float = 1.0, shapes: Sequence[Any] = SHAPES
) -> list[Arrays]:
    """The tensors after each step.

    Args:
        codec: A class of this module.
        steps: How many.
        factor: By which the means are multiplied.
        shapes: Of the tensors.
    """
    values, after = first(shapes), []
    for of_step in targets(steps, shapes):
        means = codec.means([value - target for value, target in zip(values, of_step, strict=True)])
        values = [v - RATE * factor * mean for v, mean in zip(values, means, strict=True)]
        after.append(values)
    return after


def trained(
    apply: Callable[[list[Any], list[Any]], Any],
    steps: int,
    mode: str = "function",
    variables: list[Any] | None = None,
    scale: float = 1.0,
) -> list[Arrays]:
    """The tensors after each step of a training.

    Args:
        apply: Takes this peer's gradients and the variables.
        steps: How many.
        mode: "eager" or "function".
        variables: What to train; default: new ones.
        scale: A factor of the gradients.
    """
    variables = variables_of() if variables is None else variables

    def step(*of_step: Any) -> None:
        apply([scale * (v - t) for v, t in zip(variables, of_step, strict=True)], variables)

    step = tf.function(step) if mode == "function" else step
    after = []
    for of_step in targets(steps, [tuple(v.shape) for v in variables]):
        mine = [target[kf.rank()] for target in of_step]
        step(*(tf.constant(t, v.dtype) for t, v in zip(mine, variables, strict=True)))
        after.append([v.numpy() for v in variables])
    return after


def trained_in_a_session(codec: Any, steps: int) -> list[Arrays]:
    """The tensors after each step of S-SGD in a TF1 session."""
    v1 = tf.compat.v1
    after = []
    with tf.Graph().as_default(), v1.Session() as session:
        variables = [
            v1.get_variable(f"v{i}", initializer=tf.constant(value), use_resource=True)
            for i, value in enumerate(first())
        ]
        fed = [v1.placeholder(tf.float64, v.shape) for v in variables]
        pairs = zip(variables, fed, strict=True)
        loss = sum(tf.reduce_sum(tf.square(v - target)) / 2 for v, target in pairs)
        inner = v1.train.GradientDescentOptimizer(RATE)
        train = SynchronousSGDOptimizer(inner, compression=codec).minimize(loss)
        session.run(v1.global_variables_initializer())
        for of_step in targets(steps):
            mine = [target[kf.rank()] for target in of_step]
            session.run(train, dict(zip(fed, mine, strict=True)))
            after.append(session.run(variables))
    return after


def assert_same(found: Sequence[Arrays], expected: Sequence[Arrays]) -> None:
    """The tensors after each step are those expected, and bitwise equal on all peers."""
    for number, (mine, right) in enumerate(zip(found, expected, strict=True)):
        digest = training.flat(mine)
        assert kf.ops.consensus(digest, name=f"codecs/step{number}"), f"step {number}"
        for one, other in zip(mine, right, strict=True):
            off = np.linalg.norm(one - other) / np.linalg.norm(other)
            assert off <= TOLERANCE, f"step {number}: {one.shape} is off by {off:.2g}"


class Bfloat16:
    """The docstring of `kf.compression.Cast("bfloat16")`, with all peers' parts in one place."""

    def means(self, gradients: Arrays) -> Arrays:
        """For each gradient of all peers, [rank, ...], what they go on with."""
        return self.exchanged(gradients)[0]

    def exchanged(self, gradients: Arrays) -> tuple[Arrays, Arrays]:
        """The means, and what each peer's gradients were rounded to, [rank, ...]."""
        half, size = numpy_dtype("bfloat16"), np.float32(kf.size())
        sent = [g.astype(half).astype(np.float32) for g in gradients]
        means = [(parts.sum(axis=0) / size).astype(half).astype("float64") for parts in sent]
        return means, [parts.astype("float64") for parts in sent]


class Quantized:
    """The docstrings of `kf.compression.Int8` and `Int4`, with all peers' parts in one place."""

    def __init__(self, bits: int, block: int) -> None:
        self.block = block
        self.most = np.float32(2 ** (bits - 1) - 1)
        self.exchanges = 0

    def means(self, gradients: Arrays) -> Arrays:
        """For each gradient of all peers, [rank, ...], what they go on with. One bucket has all."""
        return self.exchanged(gradients)[0]

    def exchanged(self, gradients: Arrays) -> tuple[Arrays, Arrays]:
        """The means, and what each peer's gradients were rounded to, [rank, ...]."""
        size, order = kf.size(), list(reversed(range(len(gradients))))
        flat = [g.reshape(size, -1).astype(np.float32) for g in gradients]
        vectors = np.concatenate([flat[i] for i in order], axis=1)
        count = vectors.shape[1]
        rows = -(-count // self.block)
        padded = np.pad(vectors, [(0, 0), (0, rows * self.block - count)])
        blocks = padded.reshape(size, rows, self.block)
        sent = np.stack([self._rounded(blocks[rank], 0, rank) for rank in range(size)])
        means = sent.sum(axis=0) / np.float32(size)
        parts = np.array_split(means, size)
        mean = np.concatenate([self._rounded(part, 1, rank) for rank, part in enumerate(parts)])
        self.exchanges += 1
        cuts = np.cumsum([flat[i].shape[1] for i in order])[:-1]

        def cut(vectors: Any) -> Arrays:
            pieces = np.split(vectors.reshape(len(vectors), -1)[:, :count], cuts, axis=1)
            by_place = dict(zip(order, pieces, strict=True))
            shapes = [(len(vectors), *g.shape[1:]) for g in gradients]
            return [by_place[i].reshape(s).astype("float64") for i, s in enumerate(shapes)]

        return [part[0] for part in cut(mean[np.newaxis])], cut(sent)

    def _rounded(self, blocks: Any, stage: int, rank: int) -> Any:
        largest = np.abs(blocks).max(axis=1, keepdims=True, initial=0)
        scale = largest * (np.float32(1) / self.most)
        noise = noise_of(blocks.size, self.exchanges + (stage << 40) + (rank << 52))
        scaled = np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale > 0)
        levels = np.floor(scaled + noise.reshape(blocks.shape))
        return np.clip(levels, -self.most, self.most) * scale


def noise_of(count: int, seed: int) -> Any:
    """The numbers in [0, 1) of `ops/base/quantize.h`, float32."""
    numbers = np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B9)
    x = _mixed(numbers + np.uint32(seed % 2**32))
    upper = _mixed(x ^ np.uint32(seed >> 32)) >> np.uint32(8)
    return upper.astype(np.float32) / np.float32(2**24)


def _mixed(x: Any) -> Any:
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return x ^ (x >> np.uint32(16))


class ErrorFeedback:
    """The docstring of `kf.compression.ErrorFeedback`, with all peers' parts in one place."""

    def __init__(self, codec: Any) -> None:
        self.codec = codec
        self.errors: Arrays | None = None

    def means(self, gradients: Arrays) -> Arrays:
        """For each gradient of all peers, [rank, ...], what they go on with."""
        errors = [0.0] * len(gradients) if self.errors is None else self.errors
        wholes = [g + e for g, e in zip(gradients, errors, strict=True)]
        means, sent = self.codec.exchanged(wholes)
        self.errors = [whole - part for whole, part in zip(wholes, sent, strict=True)]
        return means


class BySize:
    """The docstring of `kf.compression.BySize`, with all peers' parts in one place."""

    def __init__(self, codec: Any, at_least: int, otherwise: Any = None) -> None:
        self.codec, self.at_least, self.otherwise = codec, at_least, otherwise

    def means(self, gradients: Arrays) -> Arrays:
        """For each gradient of all peers, [rank, ...], what they go on with."""
        return self._joined(gradients, "means")

    def exchanged(self, gradients: Arrays) -> tuple[Arrays, Arrays]:
        """The means, and what each peer's gradients were rounded to, [rank, ...]."""
        pairs = self._joined(gradients, "exchanged")
        return [mean for mean, _ in pairs], [sent for _, sent in pairs]

    def _joined(self, gradients: Arrays, method: str) -> Arrays:
        found: Arrays = [None] * len(gradients)
        is_large = [g[0].size >= self.at_least for g in gradients]
        for codec, large in ((self.otherwise or Plain(), False), (self.codec, True)):
            places = [i for i, is_so in enumerate(is_large) if is_so == large]
            of_codec = getattr(codec, method)([gradients[i] for i in places])
            each = of_codec if method == "means" else zip(*of_codec, strict=True)
            for i, one in zip(places, each, strict=True):
                found[i] = one
        return found


class Plain:
    """No codec."""

    def means(self, gradients: Arrays) -> Arrays:
        return [g.mean(axis=0) for g in gradients]

    def exchanged(self, gradients: Arrays) -> tuple[Arrays, Arrays]:
        return self.means(gradients), gradients


class TopK:
    """The docstring of `kf.compression.TopK`, with all peers' parts in one place."""

    def __init__(self, ratio: float, at_least: int) -> None:
        self.ratio, self.at_least = ratio, at_least
        self.errors: dict[int, Any] = {}

    def means(self, gradients: Arrays) -> Arrays:
        """For each gradient of all peers, [rank, ...], what they go on with."""
        return [self._mean(i, g) for i, g in enumerate(gradients)]

    def _mean(self, i: int, g: Any) -> Any:
        count = g[0].size
        if count < self.at_least:
            return g.mean(axis=0)
        whole = g.reshape(len(g), count) + self.errors.get(i, 0.0)
        smallest = np.sort(np.abs(whole), axis=1)[:, -int(np.ceil(self.ratio * count))]
        sent = np.where(np.abs(whole) >= smallest[:, None], whole, 0.0)
        self.errors[i] = whole - sent
        return sent.mean(axis=0).reshape(g.shape[1:])
