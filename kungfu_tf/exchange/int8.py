"""Gradients that travel with 8 bits for each element, and a scale for each block of them."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kungfu_tf.exchange.quantized import Quantized


@dataclasses.dataclass(kw_only=True, eq=False)
class Int8(Quantized):
    """Sends gradients with 8 bits for each element: a quarter of float32's.

    ```
    quantised(x), for each block of elements:
        scale = max |x| / 127
        q = floor(x / scale + u)             # u: random in [0, 1), so the mean of q·scale is x
    each peer gets a part of all peers' quantised gradients      # all to all
        mean ← Σ over peers of q·scale / peers                   # in float32
    all peers get each part's quantised(mean)                    # all gather
    ```

    Rounding is unbiased at both stages, so nothing is kept for later steps. The random numbers
    follow from the number of the exchange, the rank and the bucket: a repeated training has the
    same. A bucket is sent as soon as it is complete, while the backward pass goes on.

    A block in which an element is not finite is NaN on all peers. It cannot be used with
    `kungfu-run -on-failure survive`: survivors could not repeat its two stages.

    Sources: Dettmers et al., "8-bit Optimizers via Block-wise Quantization", ICLR 2022,
    arXiv:2110.02861 (blocks); Alistarh et al., "QSGD", NeurIPS 2017 (random rounding).

    Args:
        block: The number of elements that share a scale, an integer from 1. Each costs 4 bytes.

    Raises:
        TypeError: If it is not an integer.
        ValueError: If it is less than 1.
        FailedPreconditionError: In a step, if the job survives lost peers.

    Example:

    ```python
    optimizer = kf.optimizers.SynchronousSGDOptimizer(
        keras.optimizers.SGD(0.1), compression=kf.compression.Int8(block=256)
    )
    ```
    """

    bits: ClassVar[int] = 8

    block: int = 256
