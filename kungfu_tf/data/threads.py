"""The threads on which the functions of a pipeline run."""

from __future__ import annotations

import os

import tensorflow as tf

_LEAST = 2


def one_may_wait(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset; one function that waits, as a generator for a file, holds up no others.

    tf.data has as many threads for functions as the process has cores. A peer that stays on a
    single core would have one thread. While a generator waits there, a question to the other peers,
    which needs these threads too, could not be sent. The program's own number is kept.
    """
    is_set = dataset.options().threading.private_threadpool_size is not None
    if is_set or len(os.sched_getaffinity(0)) >= _LEAST:
        return dataset
    options = tf.data.Options()
    options.threading.private_threadpool_size = _LEAST
    return dataset.with_options(options)
