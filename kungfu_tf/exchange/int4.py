"""Gradients that travel with 4 bits for each element, and a scale for each block of them."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kungfu_tf.exchange.quantized import Quantized


@dataclasses.dataclass(kw_only=True, eq=False)
class Int4(Quantized):
    """Sends gradients with 4 bits for each element: with their scales 17/128 of float32's bytes.

    ```
    scale = max |x| / 7, for each block of elements
    q = floor(x / scale + u)                 # u: random in [0, 1), so the mean of q·scale is x
    ```

    The two stages, and all else, are those of `Int8`. An element has 15 values only, so rounding is
    a noise as large as the gradients of a small batch. `ErrorFeedback(Int4())` sends later what
    rounding has taken. As a codec of `DiLoCoOptimizer` it made a loss of 1.968 nats one of 1.982,
    where `Int8` made it 1.970 (`benchmarks/results/accuracy.md`).

    Args:
        block: The number of elements that share a scale, an even integer from 2. Each costs 4
            bytes.

    Raises:
        TypeError: If it is not an integer.
        ValueError: If it is odd, or less than 2.
        FailedPreconditionError: In a step, if the job survives lost peers.

    Example:

    ```python
    optimizer = kf.optimizers.DiLoCoOptimizer(
        keras.optimizers.Adam(1e-3), every=50, compression=kf.compression.Int4()
    )
    ```
    """

    bits: ClassVar[int] = 4

    block: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block % 2:
            raise ValueError(f"Int4: block must be even, and is {self.block}")
