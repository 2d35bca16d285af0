"""Each peer its part of the data."""

from kungfu_tf.data.even import even
from kungfu_tf.data.shard import shard

__all__ = ["even", "shard"]
