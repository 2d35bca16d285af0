"""Jobs on a Ray cluster."""

from kungfu_tf.engines.on_ray import run

__all__ = ["run"]
