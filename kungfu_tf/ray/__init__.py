"""Jobs on a Ray cluster."""

from kungfu_tf.engines.on_ray import run, trials
from kungfu_tf.engines.on_ray_train import KungfuConfig

__all__ = ["KungfuConfig", "run", "trials"]
