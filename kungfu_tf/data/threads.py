"""The threads of a pipeline's functions."""

from __future__ import annotations

import os

import tensorflow as tf

_LEAST = 2


def one_may_wait(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset, with enough threads that one function may wait, such as a generator for a file.

    tf.data has as many threads for functions as the process has cores. A peer on a single core has
    one thread. While a generator waits there, a question to the other peers, which needs such a
    thread too, could not be sent. A number that the program has set is kept.
    """
    is_set = dataset.options().threading.private_threadpool_size is not None
    if is_set or len(os.sched_getaffinity(0)) >= _LEAST:
        return dataset
    options = tf.data.Options()
    options.threading.private_threadpool_size = _LEAST
    return dataset.with_options(options)
