"""Distributed optimizers: each wraps an optimizer of Keras or `tf.compat.v1.train`.

Derive from `Algorithm` and call `wrap` to make one of your own.
"""

from kungfu_tf.context.meets import Meets
from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.optimizers.adaptive_sgd import AdaptiveSGDOptimizer
from kungfu_tf.optimizers.adasum import AdasumOptimizer
from kungfu_tf.optimizers.decentralized_sgd import DecentralizedSGDOptimizer
from kungfu_tf.optimizers.diloco import DiLoCoOptimizer
from kungfu_tf.optimizers.exact_diffusion import ExactDiffusionOptimizer
from kungfu_tf.optimizers.gradient_tracking import GradientTrackingOptimizer
from kungfu_tf.optimizers.gradient_variance import MonitorGradientVarianceOptimizer
from kungfu_tf.optimizers.local_sgd import LocalSGDOptimizer
from kungfu_tf.optimizers.noise_scale import MonitorGradientNoiseScaleOptimizer
from kungfu_tf.optimizers.pair_averaging import PairAveragingOptimizer
from kungfu_tf.optimizers.parameter_server import ParameterServerOptimizer
from kungfu_tf.optimizers.push_sum import PushSumOptimizer
from kungfu_tf.optimizers.quasi_global_momentum import QuasiGlobalMomentumOptimizer
from kungfu_tf.optimizers.sharded import ShardedOptimizer
from kungfu_tf.optimizers.sync_sgd import SynchronousSGDOptimizer
from kungfu_tf.optimizers.synchronous_averaging import SynchronousAveragingOptimizer

__all__ = [
    "AdaptiveSGDOptimizer",
    "AdasumOptimizer",
    "Algorithm",
    "DecentralizedSGDOptimizer",
    "DiLoCoOptimizer",
    "ExactDiffusionOptimizer",
    "GradientTrackingOptimizer",
    "LocalSGDOptimizer",
    "Meets",
    "MonitorGradientNoiseScaleOptimizer",
    "MonitorGradientVarianceOptimizer",
    "PairAveragingOptimizer",
    "ParameterServerOptimizer",
    "PushSumOptimizer",
    "QuasiGlobalMomentumOptimizer",
    "ShardedOptimizer",
    "SynchronousAveragingOptimizer",
    "SynchronousSGDOptimizer",
    "wrap",
]
