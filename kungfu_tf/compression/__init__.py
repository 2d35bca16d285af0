"""Codecs: gradients that travel in fewer bytes, over links that are slower than the peers.

    Cast        16 bits for each element
    Int8        8 bits for each element, and a scale for each block of them
    Int4        4 bits, and a scale for each block
    PowerSGD    matrices as products of two thin ones, and what these lack in later steps
    TopK        the largest elements, and the others in later steps

Two are made of others:

    ErrorFeedback   what a codec has not sent travels in later steps
    BySize          a codec for large gradients, and another, or none, for small ones

Give one as `compression` to `kungfu_tf.optimizers.SynchronousSGDOptimizer`, `DiLoCoOptimizer` or
`LocalSGDOptimizer`, or to `kungfu_tf.DistributedGradientTape`. Derive from `Codec` to make one of
your own.
"""

from kungfu_tf.exchange.by_size import BySize
from kungfu_tf.exchange.cast import Cast
from kungfu_tf.exchange.channel import Channel
from kungfu_tf.exchange.codec import Codec
from kungfu_tf.exchange.error_feedback import ErrorFeedback
from kungfu_tf.exchange.int4 import Int4
from kungfu_tf.exchange.int8 import Int8
from kungfu_tf.exchange.power_sgd import PowerSGD
from kungfu_tf.exchange.top_k import TopK

__all__ = [
    "BySize",
    "Cast",
    "Channel",
    "Codec",
    "ErrorFeedback",
    "Int4",
    "Int8",
    "PowerSGD",
    "TopK",
]
