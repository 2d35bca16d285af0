"""A hook that counts samples while peers come and go."""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf
from kungfu.tensorflow.variables import GraphKeys, get_or_create_global_variable

from kungfu_tf import hooks, peer
from kungfu_tf.replicas import gates

__all__ = ["ElasticHook"]


class ElasticHook(hooks.ElasticHook):
    """Lets other peers take part between two steps, and ends after so many samples of all peers.

    Args:
        local_batch_size: The batch of one peer.
        epochs: How many epochs there are.
        epoch_size: How many samples an epoch has, of all peers together.
    """

    def __init__(self, local_batch_size: int, epochs: int, epoch_size: int) -> None:
        super().__init__(None, sys.maxsize)
        self._local_batch_size = local_batch_size
        self._total_samples = epochs * epoch_size

    def begin(self) -> None:
        """Adds the variable of the samples: newcomers get it with all others."""
        samples = get_or_create_global_variable(GraphKeys.TRAINED_SAMPLES, [], tf.int64)
        self._added = tf.compat.v1.placeholder(tf.int64, [])
        with tf.control_dependencies([samples.assign_add(self._added, read_value=False)]):
            self._trained_samples = samples.read_value()
        super().begin()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts a step, and ends the training when it is time."""
        if gates.is_step(run_context):
            added = {self._added: self._local_batch_size * peer.size()}
            if run_context.session.run(self._trained_samples, added) >= self._total_samples:
                run_context.request_stop()
        super().after_run(run_context, run_values)
