"""By which a codec exchanges tensors with the other peers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import ops
from kungfu_tf.exchange.buckets import DEFAULT_BUCKET_BYTES, plan
from kungfu_tf.ops import group, kernels, naming
from kungfu_tf.ops import rows as row_operations


@dataclasses.dataclass(frozen=True)
class Channel:
    """The way to the other peers in one exchange of gradients.

    Attributes:
        name: The prefix of the names of its operations; None: they are named by their places in the
            program.
        agree: Numbers that must be the same on all peers.
        step: The optimizer's step, an integer scalar, which must be the same on all peers; None if
            it counts none.
        scale: The loss scale in the gradients, a scalar.
        is_finite: Whether all that travels beside the codec is finite, a bool scalar, the same on
            all peers. If not, a loss scale skips the step.
        bucket_bytes: The most bytes of one operation.
    """

    name: str | None
    _: dataclasses.KW_ONLY
    agree: Sequence[int] = ()
    step: Any = None
    scale: Any = 1.0
    is_finite: Any = True
    bucket_bytes: int = DEFAULT_BUCKET_BYTES

    def mean(self, values: Sequence[Any], part: str = "") -> list[Any]:
        """The means of tensors over the peers, a bucket of them in each operation.

        A bucket is sent when its tensors are known. Means of 16-bit tensors are made in float32.

        Args:
            values: Tensors of known shapes.
            part: What tells them apart from others that this exchange sends.
        """
        means = list(values)
        buckets = self.buckets(values)
        together = kernels.Exchange.of(len(buckets))
        for number, bucket in enumerate(buckets):
            received = group.agreed_all_reduce(
                [values[i] for i in bucket],
                op="mean",
                name=self._name_of(part, number),
                step=self.step,
                agree=self.agree,
                exchange=together,
            )
            for i, mean in zip(bucket, received, strict=True):
                means[i] = mean
        return means

    def buckets(self, values: Sequence[Any]) -> list[list[int]]:
        """Tensors of known shapes, cut into buckets: lists of their places, the last ones first."""
        return plan(values, values, self.bucket_bytes)

    def all_to_all(self, rows: Any, number: int, part: str = "") -> Any:
        """An even part of each peer's rows, in the order of ranks: `kungfu_tf.ops.all_to_all`.

        Args:
            rows: A tensor [rows, ...]; as many on all peers.
            number: The number of a bucket.
            part: As for `mean`.
        """
        return ops.all_to_all(rows, name=self._name_of(part, number))

    def all_gather(self, rows: Any, number: int, part: str = "") -> Any:
        """The rows of all peers, in the order of ranks. The arguments are those of `all_to_all`."""
        tag = naming.make_tag("all_gather", self._name_of(part, number))
        agree = tf.constant(self.agree, tf.int64)
        return row_operations.all_gather(rows, concat=True, tag=tag, agree=agree)[0]

    def _name_of(self, part: str, number: int) -> str | None:
        return self.name and "/".join(filter(None, [self.name, part, str(number)]))
