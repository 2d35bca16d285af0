"""KungFu's modules, made of kungfu_tf. Import them as `kungfu`: see `kungfu_tf.compat`."""

from kungfu.python import (
    current_cluster_size,
    current_local_rank,
    current_local_size,
    current_rank,
    detached,
    run_barrier,
    uid,
)

__all__ = [
    "current_cluster_size",
    "current_local_rank",
    "current_local_size",
    "current_rank",
    "detached",
    "run_barrier",
    "uid",
]
