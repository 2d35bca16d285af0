"""The ratio of a peer's batch size to the one at the beginning of the training.

Measurements that depend on the batch size are multiplied by it. It is 1 unless a policy changes the
batch size.
"""

from __future__ import annotations

import tensorflow as tf

from kungfu_tf.context import graph_state

factor = graph_state.State(lambda: graph_state.variable(1.0, tf.float64, "batch_factor"))
