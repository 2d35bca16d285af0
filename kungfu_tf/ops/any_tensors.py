"""Gathers tensors of any dtype and shape, even strings."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf.ops import uneven_rows
from kungfu_tf.ops.collective import all_gather


def gather_any(tensors: Sequence[Any], *, name: str) -> list[list[Any]]:
    """Gathers the tensors of every peer, of which each may have any number. Eager.

    They are sent as serialised protocol buffers: use it for what is small or rare.

    Args:
        tensors: Anything that `tf.make_tensor_proto` takes.
        name: The same on every peer.

    Returns:
        The tensors of each rank, as NumPy arrays.
    """
    mine = [tf.make_tensor_proto(tensor).SerializeToString() for tensor in tensors]
    sizes_of_all = uneven_rows.gather([len(one) for one in mine], name=f"{name}/sizes")
    my_bytes = np.frombuffer(b"".join(mine), np.uint8)
    data = io.BytesIO(all_gather(my_bytes, concat=True, name=f"{name}/bytes").numpy().tobytes())
    return [
        [tf.make_ndarray(_Proto.FromString(data.read(int(size)))) for size in sizes]
        for sizes in sizes_of_all
    ]


_Proto = type(tf.make_tensor_proto(0))
