"""The mean, or sum, of many gradients over the peers, a bucket of them in each operation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import config, context, peer
from kungfu_tf.exchange import sums, union
from kungfu_tf.exchange.buckets import DEFAULT_BUCKET_BYTES, plan
from kungfu_tf.exchange.codec import Codec
from kungfu_tf.exchange.coded_means import with_coded
from kungfu_tf.exchange.measured_norms import Norms
from kungfu_tf.exchange.sparse_rows import mean_of_unique_rows
from kungfu_tf.ops import group, kernels, members, norms
from kungfu_tf.ops.gradient_values import unique_rows
from kungfu_tf.ops.scaling import scaled
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
    op: str = "mean",
    predivide: float = 1.0,
    compression: Codec | None = None,
) -> list[Any]:
    """Returns the means over the peers, or their sums, in the order given; None stays None.

    Each gradient passes these steps, once:

    1. It is divided by `predivide`.
    2. `plan` puts it into a bucket. A bucket is sent when its gradients are ready, while the
       backward pass computes the next ones.
    3. `unique_rows` adds up its rows of one index, if it is sparse and the optimizer allows it.
    4. `weighted` multiplies it by this peer's weight, within `sample_weights.samples`. Elsewhere
       peers count alike.
    5. Its bucket is exchanged. The norms of what is sent and received are measured on the way. In a
       function all dense buckets end together: either all of them have a mean, or none has.
    6. The result is multiplied by `predivide`.

    With a codec, dense gradients pass the steps of `coded_means.py` instead of those from 2 to 5.

    A process that is alone gets the gradients back as they are: nothing is added to the program.

    Args:
        gradients: Tensors, sparse rows (`tf.IndexedSlices`) or None.
        variables: The variables that the gradients belong to.
        bucket_bytes: The most bytes of one operation.
        name: Bucket i is reduced as `<name>/<i>`; None: by its place in the program.
        step: The optimizer's step, an integer scalar, which must be the same on all peers; None if
            it counts none.
        measured: The norms to add to; None: they are not measured.
        sums_rows: Whether rows of one index may be added up: see `Algorithm.sums_rows`.
        op: "mean" or "sum". Norms are measured of means only.
        predivide: A positive number. Norms are those of divided gradients.
        compression: The codec by which dense gradients travel; None: as they are, as they do with
            `kungfu-run -verify`. With a codec no norms are measured.

    Raises:
        InvalidArgumentError: If a gradient is of a loss that is no scalar.
        tf.errors.InvalidArgumentError: If peers have other variables, or gradients of others.
    """
    if peer.is_single_process():
        return list(gradients)
    sums.refuse(gradients, variables)
    divided = [scaled(gradient, 1.0 / predivide) for gradient in gradients]
    agree = [members.identity(variables, union.kinds_of(gradients)), context.current().members]
    if compression is None or config.VERIFY.get():
        exchange = _Exchange(name, agree, step, measured, op)
        means = _exchanged(divided, variables, bucket_bytes, exchange, sums_rows)
    else:
        rows = mean_gradients(
            [g if _is_sparse(g) else None for g in divided],
            variables,
            bucket_bytes=bucket_bytes,
            name=name and f"{name}/rows",
            step=step,
            sums_rows=sums_rows,
            op=op,
        )
        means = with_coded(
            rows,
            divided,
            variables,
            compression,
            bucket_bytes=bucket_bytes,
            name=name,
            step=step,
            agree=agree,
            op=op,
        )
    return [scaled(mean, predivide) for mean in means]


def _exchanged(
    gradients: Sequence[Any],
    variables: Sequence[Any],
    bucket_bytes: int,
    whole: _Exchange,
    sums_rows: bool,
) -> list[Any]:
    """Those of `mean_gradients` that travel as they are.

    Args:
        gradients: As for `mean_gradients`.
        variables: As for `mean_gradients`.
        bucket_bytes: As for `mean_gradients`.
        whole: The exchange, of which those of the buckets are parts.
        sums_rows: As for `mean_gradients`.
    """
    weight, means = sample_weights.current(), list(gradients)
    buckets = plan(gradients, variables, bucket_bytes)
    together = kernels.Exchange.of(sum(not _is_sparse(gradients[b[0]]) for b in buckets))
    for number, bucket in enumerate(buckets):
        mine = [gradients[i] for i in bucket]
        is_sparse = _is_sparse(mine[0])  # then it is alone in its bucket
        exchange = whole.part(number, None if is_sparse else together)
        if is_sparse and sums_rows:
            mine = [unique_rows(mine[0])]
        sent = sample_weights.weighted(mine, weight)
        if not is_sparse:
            received = exchange.dense(sent)
        elif sums_rows:
            received = [exchange.unique_rows(sent[0], variables[bucket[0]])]
        else:
            received = [exchange.sparse(sent[0])]
        for i, mean in zip(bucket, received, strict=True):
            means[i] = mean
    return means


@dataclasses.dataclass(frozen=True)
class _Exchange:
    """The exchange of all buckets, or of one.

    Attributes:
        name: The name of its operations, as for `mean_gradients`, like the rest.
        agree: Numbers that must be the same on all peers.
        step: The optimizer's step.
        measured: The norms to add to.
        op: "mean" or "sum".
        together: The operations that end together.
    """

    name: str | None
    agree: list[int]
    step: Any
    measured: Norms | None
    op: str
    together: kernels.Exchange | None = None

    def part(self, number: int, together: kernels.Exchange | None) -> _Exchange:
        """That of the bucket with this number."""
        name = None if self.name is None else f"{self.name}/{number}"
        return dataclasses.replace(self, name=name, together=together)

    def dense(self, sent: list[Any]) -> list[Any]:
        """The results for dense tensors."""
        if self.measured is None:
            return self._group_result(sent)
        wanted = self.measured.wanted
        means, *squares = norms.group_mean(
            sent,
            wanted=wanted,
            name=self.name,
            step=self.step,
            agree=self.agree,
            exchange=self.together,
        )
        self.measured.add(*squares)
        return means

    def sparse(self, sent: Any) -> Any:
        """The result for sparse rows, which are those of all peers; the norm travels with them."""
        if self.measured is None:
            return self._group_result([sent])[0]
        mean, own = self._group_result([sent, self.measured.of_sparse(sent)])
        self.measured.add_sparse(own, mean)
        return mean

    def unique_rows(self, sent: Any, variable: Any) -> Any:
        """The result for sparse rows that have each index once, as the result has."""
        own = None if self.measured is None else self.measured.of_sparse(sent)
        mean = mean_of_unique_rows(sent, variable, name=self.name, agree=self.agree, op=self.op)
        if self.measured is not None:
            self.measured.add_sparse(self._group_result([own])[0], mean)
        return mean

    def _group_result(self, sent: list[Any]) -> list[Any]:
        return group.agreed_all_reduce(
            sent,
            op=self.op,
            name=self.name,
            step=self.step,
            agree=self.agree,
            exchange=self.together,
        )


def _is_sparse(gradient: Any) -> bool:
    return isinstance(gradient, tf.IndexedSlices)
