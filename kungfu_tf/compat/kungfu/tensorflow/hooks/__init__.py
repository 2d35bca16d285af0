"""KungFu's hooks for sessions and Estimators."""

from kungfu.tensorflow.hooks.elastic import KungFuElasticTrainHook

__all__ = ["KungFuElasticTrainHook"]
