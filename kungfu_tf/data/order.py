"""Checks that all peers deal out the same elements in the same order.

It reads no data. The order follows from the sources (tensors, lists of files) and from the seeds of
the shuffles after them. A digest of the first rows and the seeds travels with what the peers tell
each other about their data anyway.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import peer

_ROWS = 64
_CAUSES = (
    "Usual causes: a shuffle before it without a seed that all peers share, as that of "
    "tf.data.Dataset.list_files (give it shuffle=False, or a seed); a loader that shuffles names, "
    "as image_dataset_from_directory (shuffle=False, or a seed); names in the order of a directory "
    "or a set (sort them)"
)


def check_repeats_on_all(dataset: tf.data.Dataset) -> None:
    """Raises a ValueError if a shuffle without a seed gives each peer an order of its own."""
    for one in _all_of(dataset):
        if [_known(seed) for seed in _seeds(one)] == [0, 0]:
            raise ValueError(
                f"data.shard: the dataset comes in an order of each peer's own. {_CAUSES}. Let "
                "data.shard(dataset, shuffle=10_000) shuffle, or shuffle afterwards"
            )


def remember_order(dealt: tf.data.Dataset, source: tf.data.Dataset) -> tf.data.Dataset:
    """Returns `dealt`, which remembers a digest of the order of the dataset it was dealt from."""
    digest = 0
    for one in _all_of(source):
        digest = zlib.crc32(type(one).__name__.encode(), digest)
        for value in _seeds(one):
            digest = zlib.crc32(repr(_known(value)).encode(), digest)
        for tensor in getattr(one, "_tensors", []):
            digest = zlib.crc32(_first_rows(tensor), digest)
    dealt._kungfu_order = digest
    return dealt


def digest_of(dataset: Any) -> int:
    """The digest of the order in which a dataset was dealt out; 0 if it was not dealt out."""
    digest = 0
    for one in _all_of(dataset):
        if hasattr(one, "_kungfu_order"):
            digest = zlib.crc32(str(one._kungfu_order).encode(), digest)
    return digest


def check_same(digests: Sequence[int]) -> None:
    """Raises a ValueError if peers deal out different orders.

    Args:
        digests: The digest of each rank; 0 if it is unknown.
    """
    known = {digest for digest in digests if digest}
    if len(known) > 1:
        ranks = [rank for rank, digest in enumerate(digests) if digest not in (0, digests[0])]
        raise ValueError(
            "data.shard: not all peers deal out the same elements in the same order: that of "
            f"{peer.names_of(ranks)} differs from rank 0's, so that some would be used twice and "
            f"others never. {_CAUSES}"
        )


def _all_of(dataset: Any) -> Iterator[Any]:
    """A dataset and all datasets that it was made from."""
    waiting = [dataset] if isinstance(dataset, tf.data.Dataset) else []
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(one._inputs())


def _seeds(dataset: Any) -> list[Any]:
    """The two seeds of a shuffle. Both are 0 if each pass has a random order."""
    is_shuffle = "Shuffle" in type(dataset).__name__
    return [dataset._seed, dataset._seed2] if is_shuffle and hasattr(dataset, "_seed2") else []


def _known(seed: Any) -> int | None:
    value = tf.get_static_value(seed)
    return None if value is None else int(value)


def _first_rows(tensor: Any) -> bytes:
    """The bytes of the first rows. Paths count by the file's name: folders may differ on hosts."""
    if not hasattr(tensor, "numpy") or tensor.dtype in (tf.variant, tf.resource):
        return b""
    rows = (tensor[:_ROWS] if tensor.shape.rank else tensor).numpy()
    if tensor.dtype != tf.string:
        return repr(tensor.shape).encode() + rows.tobytes()
    return b"\0".join(name.rsplit(b"/", 1)[-1] for name in rows.reshape(-1).tolist())
