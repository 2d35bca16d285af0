"""KungFu's experimental hooks."""

from kungfu.tensorflow.experimental.hook.elastic import ElasticHook

__all__ = ["ElasticHook"]
