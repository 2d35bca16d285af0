"""KungFu's optimizers. Each changes the optimizer that it is given, and returns it.

`name`, `use_locking` and `with_keras` have no effect; the options for NCCL have none either, and
give a warning.
"""

from kungfu.tensorflow.optimizers.ada_sgd import AdaptiveSGDOptimizer
from kungfu.tensorflow.optimizers.async_sgd import PairAveragingOptimizer
from kungfu.tensorflow.optimizers.grad_noise_scale import MonitorGradientNoiseScaleOptimizer
from kungfu.tensorflow.optimizers.grad_variance import MonitorGradientVarianceOptimizer
from kungfu.tensorflow.optimizers.sma_sgd import SynchronousAveragingOptimizer
from kungfu.tensorflow.optimizers.sync_sgd import SynchronousSGDOptimizer

__all__ = [
    "AdaptiveSGDOptimizer",
    "MonitorGradientNoiseScaleOptimizer",
    "MonitorGradientVarianceOptimizer",
    "PairAveragingOptimizer",
    "SynchronousAveragingOptimizer",
    "SynchronousSGDOptimizer",
]
