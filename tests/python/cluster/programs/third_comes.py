"""The callback of a training of two peers to which a third one comes."""

from __future__ import annotations

import tensorflow as tf
from elastic_server import wait_for_change

import kungfu_tf as kf

BEFORE, TOGETHER = 6, 9  # steps of two peers, and of three


class Steps(tf.keras.callbacks.Callback):
    """Asks for another peer in the middle, and notes how many peers made each step."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.sizes.append(kf.size())
        if len(self.sizes) == BEFORE and kf.size() == 2:
            if kf.is_root():
                kf.propose_new_size(3)
            wait_for_change()
        self.model.stop_training = self.sizes.count(3) == TOGETHER
