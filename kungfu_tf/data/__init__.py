"""Gives each peer its part of the data."""

from kungfu_tf.data.adapt import adapt
from kungfu_tf.data.even import even
from kungfu_tf.data.from_cluster import from_cluster
from kungfu_tf.data.join import join
from kungfu_tf.data.parquet import parquet
from kungfu_tf.data.position import Position
from kungfu_tf.data.shard import shard
from kungfu_tf.data.tfrecords import tfrecords
from kungfu_tf.data.write_tfrecords import write_tfrecords

__all__ = [
    "Position",
    "adapt",
    "even",
    "from_cluster",
    "join",
    "parquet",
    "shard",
    "tfrecords",
    "write_tfrecords",
]
