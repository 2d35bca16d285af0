"""Each peer its part of the data."""

from kungfu_tf.data.shard import shard

__all__ = ["shard"]
