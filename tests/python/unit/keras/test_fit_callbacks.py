"""Which callbacks `fit` was given."""

from __future__ import annotations

import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.keras.fit.given_callbacks import as_list, first_batch_size

callbacks = tf.keras.callbacks


class HasCallbacks(callbacks.Callback):
    """The user's."""

    def __init__(self) -> None:
        super().__init__()
        self.callbacks = ["of its own"]


def test_lists_and_nests_of_callbacks() -> None:
    first, second = callbacks.Callback(), HasCallbacks()
    assert as_list(None) == []
    assert as_list(second) == [second]
    assert as_list([first, (second, [first])]) == [first, second, first]


def test_a_callback_list() -> None:
    first = HasCallbacks()
    assert as_list(callbacks.CallbackList([first])) == [first]


def test_one_of_several_policy_callbacks_says_the_batch_size() -> None:
    quiet, says = kf.callbacks.PolicyCallback([]), kf.callbacks.PolicyCallback([], batch_size=8)
    for given, size in (([], None), ([quiet], 0), ([quiet, says], 8), ([says, quiet], 8)):
        assert first_batch_size(given) == size
