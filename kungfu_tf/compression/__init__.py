"""Codecs: gradients that travel in fewer bytes, over links that are slower than the peers.

    Cast        16 bits for each element
    Int8        8 bits for each element, and a scale for each block of them
    PowerSGD    matrices as products of two thin ones, and what these lack in later steps
    TopK        the largest elements, and the others in later steps

Give one as `compression` to `kungfu_tf.optimizers.SynchronousSGDOptimizer`, `DiLoCoOptimizer` or
`LocalSGDOptimizer`, or to `kungfu_tf.DistributedGradientTape`. Derive from `Codec` to make one of
your own.
"""

from kungfu_tf.exchange.cast import Cast
from kungfu_tf.exchange.channel import Channel
from kungfu_tf.exchange.codec import Codec
from kungfu_tf.exchange.int8 import Int8
from kungfu_tf.exchange.power_sgd import PowerSGD
from kungfu_tf.exchange.top_k import TopK

__all__ = ["Cast", "Channel", "Codec", "Int8", "PowerSGD", "TopK"]
