"""The state of a Keras model that is committed to memory, and restored from it."""

from horovod.tensorflow.keras.elastic import KerasState

__all__ = ["KerasState"]
