"""PowerSGD: gradients of matrices travel as products of two thin ones."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from kungfu_tf.context import graph_state
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.channel import Channel
from kungfu_tf.exchange.codec import Codec
from kungfu_tf.exchange.kept_errors import (
    all_finite,
    as_gradient,
    by_place,
    checked,
    new_error,
    share_errors,
    with_error,
)
from kungfu_tf.exchange.widening import wide
from kungfu_tf.ops.gradient_values import tied
from kungfu_tf.ops.members import is_variable
from kungfu_tf.upstream import generations


class _Slot(NamedTuple):
    """The state for one variable, whose gradient is taken as a matrix [rows, columns].

    Attributes:
        error: What was not sent yet, [rows, columns], of this peer.
        right: The right factor of the last mean, [columns, rank], the same on all peers.
    """

    error: Any
    right: Any


@dataclasses.dataclass(kw_only=True, eq=False)
class PowerSGD(Codec):
    """Sends matrices as products of two thin ones, and later what these lack.

    ```
    e = 0, Q = random                        # for each matrix of [m, k]; Q is [k, rank]
    in each exchange:
        M ← g + e                            # g: this peer's gradient, times its weight
        P ← orthonormal(mean over peers of M·Q)
        Q ← mean over peers of Mᵀ·P
        e ← M − P·Qᵀ
        use P·Qᵀ in place of the mean of g
    ```

    A gradient with more than two axes, as that of a convolution, is a matrix whose columns are the
    last axis. Vectors travel as they are, and so do matrices for which (m + k)·rank·`min_rate` >
    m·k. The vectors travel with P. So there are two operations, the second of which waits for the
    first, and none is sent before the last gradient is known. 16-bit gradients are computed, and
    sent, in float32.

    For a matrix it sends (m + k)·rank elements in place of m·k. It costs memory for e, as much as
    the gradients of the matrices. (In `fit` also for tables whose gradients are sparse rows.) What
    is lost in one step is sent in later ones ("error feedback"). So expect the accuracy of
    uncompressed training at ranks of 2 to 4, and not its weights.

    If any gradient of any peer is not finite, e and Q stay as they were, and the gradients of all
    matrices are NaN. With a loss scale e is kept without it. Clipping comes after.

    The peers have the same P·Qᵀ if they have processors of one kind; else their last bits may
    differ, which `fit` notices: see `BroadcastGlobalVariablesCallback(repairs_rounding=True)`.

    Only the mean of all peers' e matters. `share` gives it to all peers. `fit` does so when it
    ends, before `BackupAndRestore` saves, and before peers come and go: so newcomers begin with it,
    and a resumed training is that of one without interruption. If a peer fails, its e is lost: what
    it did not send of its last steps. In a session of TF1 the variables are among the global ones,
    and a restored one begins with the e of rank 0.

    Source: Vogels et al., "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
    Optimization", NeurIPS 2019, arXiv:1905.13727.

    Args:
        rank: The rank of what is sent, an integer from 1.
        start_step: How many of the first exchanges are uncompressed, an integer from 0.
        min_rate: How many times smaller a matrix must become to be compressed, a number from 1.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If one is out of range.
        tf.errors.InvalidArgumentError: In a step, on all peers, if an e is not finite, as one from
            a broken backup.

    Example:

    ```python
    optimizer = kf.optimizers.SynchronousSGDOptimizer(
        keras.optimizers.SGD(0.1), compression=kf.compression.PowerSGD(rank=4)
    )
    ```
    """

    rank: int = 4
    start_step: int = 0
    min_rate: float = 2

    def __post_init__(self) -> None:
        for name, kind, least in (("rank", int, 1), ("start_step", int, 0), ("min_rate", None, 1)):
            _check(name, getattr(self, name), kind, least)
        self._slots = graph_state.State(dict)  # by references of the variables
        self._steps = graph_state.State(
            lambda: graph_state.variable(0, tf.int64, "compression/steps")
        )

    def build(self, variables: Sequence[Any]) -> None:
        """Creates e and Q for those of the variables that are compressed."""
        slots = self._slots.get()
        for variable in filter(is_variable, variables):
            variable = generations.native(variable)
            if variable.ref() not in slots and self._compresses(variable):
                with tf.init_scope():
                    slots[variable.ref()] = self._slot_of(variable, len(slots))
        if tf.compat.v1.executing_eagerly_outside_functions():
            self.state.errors = [slot.error for slot in slots.values()]
            self.state.rights = [slot.right for slot in slots.values()]
            self.state.steps = self._steps.get()

    def share(self, name: str = "compression") -> None:
        """Gives all peers the mean of their e."""
        errors = [slot.error for slot in self._slots.get().values()]
        share_errors(errors, f"{name}/errors")

    def means(self, values: Sequence[Any], variables: Sequence[Any], channel: Channel) -> list[Any]:
        """Returns P·Qᵀ for matrices, and means for the rest."""
        slots = self._slots_of(variables)
        state = [variable for slot in slots.values() for variable in slot]
        if not state:
            return channel.mean(values)
        compressed = functools.partial(_compressed, values, slots, channel)
        if not self.start_step:
            results, counted = compressed(), []
        else:
            steps = self._steps.get()
            before = steps.read_value()
            unchanged = functools.partial(_uncompressed, values, state, channel)
            results = tf.cond(before < self.start_step, unchanged, compressed)
            counted = assign([steps], [before + 1])
        means, new = results[: len(values)], results[len(values) :]
        return tied(means, [*counted, *assign(state, new)])

    def _slots_of(self, variables: Sequence[Any]) -> dict[int, _Slot]:
        """The slots of those that are compressed, by their places in the list."""
        self.build(variables)
        return by_place(variables, self._slots.get())

    def _compresses(self, variable: Any) -> bool:
        shape = tf.TensorShape(variable.shape)
        if not variable.dtype.is_floating or not shape.is_fully_defined() or len(shape) < 2:
            return False
        rows, columns = _matrix_shape(shape)
        return (rows + columns) * self.rank * self.min_rate <= rows * columns

    def _slot_of(self, variable: Any, number: int) -> _Slot:
        """Zeros; and random numbers that are the same on all peers, bit for bit."""
        rows, columns = _matrix_shape(variable.shape)
        dtype, name = wide(variable.dtype), generations.name_of(variable).split(":")[0]
        # Not from a normal distribution, whose last bits depend on the processor.
        right = np.random.default_rng(number).uniform(-1, 1, [columns, self.rank])
        initial = lambda: tf.constant(right, dtype)  # noqa: E731
        return _Slot(
            new_error(variable, [rows, columns]),
            graph_state.variable(initial, dtype, f"compression/right/{name}", device=None),
        )


def _compressed(values: Sequence[Any], slots: dict[int, _Slot], channel: Channel) -> list[Any]:
    """The means, and then the new e and Q of each slot."""
    matrices = {i: with_error(values[i], slot.error, channel) for i, slot in slots.items()}
    sent = list(values)
    for i, matrix in matrices.items():
        sent[i] = tf.matmul(matrix, slots[i].right)
    means = channel.mean(sent)
    is_finite = tf.convert_to_tensor(channel.is_finite) & all_finite(means)
    lefts = [_orthonormal(means[i], is_finite) for i in slots]
    pairs = zip(matrices.values(), lefts, strict=True)
    rights = channel.mean([tf.matmul(m, left, transpose_a=True) for m, left in pairs], "right")
    is_finite &= all_finite(rights)
    well = checked([slot.error for slot in slots.values()], is_finite, channel)
    state = []
    for (i, slot), left, right in zip(slots.items(), lefts, rights, strict=True):
        decoded = tf.matmul(left, right, transpose_b=True)
        means[i] = as_gradient(tf.where(is_finite, decoded, np.nan), values[i], channel)
        error = tf.where(is_finite, matrices[i] - decoded, slot.error.read_value())
        state += [error, tf.where(is_finite, right, slot.right.read_value())]
    with tf.control_dependencies([well]):
        return [*means, *map(tf.identity, state)]


def _uncompressed(values: Sequence[Any], state: Sequence[Any], channel: Channel) -> list[Any]:
    """The means, and then the state as it is."""
    return [*channel.mean(values, "first"), *(variable.read_value() for variable in state)]


def _orthonormal(left: Any, is_finite: Any) -> Any:
    """Its columns made orthonormal. Householder's method copes with columns of zeros."""
    return tf.linalg.qr(tf.where(is_finite, left, tf.zeros_like(left))).q


def _matrix_shape(shape: Any) -> tuple[int, int]:
    *rows, columns = tf.TensorShape(shape).as_list()
    return int(np.prod(rows)), columns


def _check(name: str, value: Any, kind: Any, least: int) -> None:
    kinds = kind or (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        what = "an integer" if kind is int else "a number"
        raise TypeError(f"PowerSGD: {name} is {what}, not {value!r}")
    if not value >= least:
        raise ValueError(f"PowerSGD: {name} must be at least {least}, and is {value}")
