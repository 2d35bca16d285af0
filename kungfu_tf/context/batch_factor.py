"""How much larger a peer's batch is than the one that its training began with.

A measurement that depends on the size of a batch is multiplied by it. It is 1 unless a policy
changes batches.
"""

from __future__ import annotations

import tensorflow as tf

from kungfu_tf.context import graph_state

factor = graph_state.State(lambda: graph_state.variable(1.0, tf.float64, "batch_factor"))
