"""Tensors of any dtype and any shape, strings too, which peers tell each other once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf.ops.collective import all_gather


def gather_any(tensors: Sequence[Any], *, name: str) -> list[list[Any]]:
    """Gathers the tensors of every peer; each may have as many of them as it likes. Eager.

    They travel as serialised protocol buffers: for what is small, or rare.

    Args:
        tensors: What `tf.make_tensor_proto` takes.
        name: The same on every peer.

    Returns:
        For each rank its tensors, as NumPy arrays.
    """
    mine = [tf.make_tensor_proto(tensor).SerializeToString() for tensor in tensors]
    sizes = np.array([len(mine), *map(len, mine)], np.int64)
    told = all_gather(sizes, concat=True, name=f"{name}/sizes").numpy().tolist()
    mine_as_bytes = np.frombuffer(b"".join(mine), np.uint8)
    data = all_gather(mine_as_bytes, concat=True, name=f"{name}/bytes").numpy().tobytes()
    found: list[list[Any]] = []
    while told:
        count, *told = told
        of_rank: list[Any] = []
        for size in told[:count]:
            of_rank.append(tf.make_ndarray(_Proto.FromString(data[:size])))
            data = data[size:]
        found.append(of_rank)
        told = told[count:]
    return found


_Proto = type(tf.make_tensor_proto(0))
