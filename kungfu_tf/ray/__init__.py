"""Jobs on a Ray cluster."""

from kungfu_tf.engines.on_ray import run, trials

__all__ = ["run", "trials"]
