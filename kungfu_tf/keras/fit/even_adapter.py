"""Keras' data adapter, with data of one length on all peers in place of its own."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf.keras.fit.even_data import EvenData


class EvenAdapter:
    """Takes the place of Keras' data adapter, and passes on what it does not answer itself.

    Args:
        adapter: Keras' data adapter.
        data: The data that were made from its dataset.
    """

    def __init__(self, adapter: Any, data: EvenData) -> None:
        self._adapter = adapter
        self._data = data

    def get_tf_dataset(self) -> tf.data.Dataset:
        """The dataset, for Keras 3."""
        return self._data.dataset

    def get_dataset(self) -> tf.data.Dataset:
        """The dataset, for Keras 2."""
        return self._data.dataset

    @property
    def num_batches(self) -> int | None:
        """The number of batches or None, for Keras 3."""
        return self._data.length

    def get_size(self) -> int | None:
        """The number of batches or None, for Keras 2."""
        return self._data.length

    def should_recreate_iterator(self) -> bool:
        """Whether each epoch begins a new pass, for Keras 2."""
        return self._data.begins_anew or bool(self._adapter.should_recreate_iterator())

    def on_epoch_begin(self) -> None:
        """Begins an epoch, for Keras 3."""
        self._data.forget_length()
        self._adapter.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Ends an epoch, for Keras 2 and 3."""
        self._data.forget_length()
        self._adapter.on_epoch_end()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)
