"""The mean of many gradients over the peers, a bucket of them in each operation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import context, peer
from kungfu_tf.exchange import sparse_rows, sums, union
from kungfu_tf.exchange.buckets import DEFAULT_BUCKET_BYTES, plan
from kungfu_tf.exchange.measured_norms import Norms
from kungfu_tf.ops import group, members, norms
from kungfu_tf.replicas import sample_weights


def mean_gradients(
    gradients: Sequence[Any],
    variables: Sequence[Any],
    *,
    bucket_bytes: int = DEFAULT_BUCKET_BYTES,
    name: str | None = None,
    step: Any = None,
    measured: Norms | None = None,
    sums_rows: bool = False,
) -> list[Any]:
    """Returns the means over the peers, in the order given; None stays None.

    Peers whose variables differ, or which gradients they have, get an error.

    Each gradient passes these steps, once:

    1. `plan` puts it into a bucket. A bucket is sent when its gradients are ready, while the
       backward pass computes the next ones.
    2. `rows_once` adds up what it has of one row, if it is sparse and the optimizer allows it.
    3. `weighted` multiplies it with this peer's weight, within `sample_weights.samples`. Elsewhere
       peers count alike.
    4. Its bucket is exchanged, and the norms of what is sent and received are measured on the way.

    Of a process that is alone the gradients are returned as they are: nothing is added to the
    program.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None.
        variables: What they are the gradients of; gives their sizes.
        bucket_bytes: The most bytes of one operation.
        name: Bucket i is reduced as `<name>/<i>`; without it the operations name themselves.
        step: The optimizer's step, if it counts them: peers at different steps are told so.
        measured: To which the norms are added.
        sums_rows: Whether slices of one row of a table may be added up: see `Algorithm.sums_rows`.

    Raises:
        InvalidArgumentError: If a gradient is of a loss that is no scalar.
    """
    means = list(gradients)
    if peer.is_single_process():
        return means
    sums.refuse(gradients, variables)
    weight = sample_weights.current()
    agree = [members.identity(variables, union.kinds_of(gradients)), context.current().members]
    for number, bucket in enumerate(plan(gradients, variables, bucket_bytes)):
        called = None if name is None else f"{name}/{number}"
        exchange = _Exchange(called, agree, step, measured)
        mine = [gradients[i] for i in bucket]
        is_sparse = isinstance(mine[0], tf.IndexedSlices)  # then it is alone in its bucket
        if is_sparse and sums_rows:
            sent = sample_weights.weighted([sparse_rows.rows_once(mine[0])], weight)
            received = [exchange.mean_of_rows(sent[0], variables[bucket[0]])]
        else:
            sent = sample_weights.weighted(mine, weight)
            received = [exchange.mean_of_slices(sent[0])] if is_sparse else exchange.means(sent)
        for i, mean in zip(bucket, received, strict=True):
            means[i] = mean
    return means


@dataclasses.dataclass(frozen=True)
class _Exchange:
    """The operations of one bucket: name, what peers must agree in, step, what measures norms."""

    name: str | None
    agree: list[int]
    step: Any
    measured: Norms | None

    def means(self, sent: list[Any]) -> list[Any]:
        """The means of dense tensors."""
        if self.measured is None:
            return self._group_mean(sent)
        wanted = self.measured.wanted
        means, *squares = norms.group_mean(
            sent, wanted=wanted, name=self.name, step=self.step, agree=self.agree
        )
        self.measured.add(*squares)
        return means

    def mean_of_slices(self, sent: Any) -> Any:
        """The slices of all peers, each divided by their number; the norm travels with them."""
        if self.measured is None:
            return self._group_mean([sent])[0]
        mean, own = self._group_mean([sent, self.measured.of_slices(sent)])
        self.measured.add_slices(own, mean)
        return mean

    def mean_of_rows(self, sent: Any, table: Any) -> Any:
        """The mean of slices in which each row occurs once; so it does in the mean."""
        if self.measured is None:
            return sparse_rows.mean_rows(sent, table, name=self.name, agree=self.agree)
        own = self.measured.of_slices(sent)
        mean = sparse_rows.mean_rows(sent, table, name=self.name, agree=self.agree)
        self.measured.add_slices(self._group_mean([own])[0], mean)
        return mean

    def _group_mean(self, sent: list[Any]) -> list[Any]:
        return group.agreed_all_reduce(
            sent, op="mean", name=self.name, step=self.step, agree=self.agree
        )
