"""Jobs on a Spark cluster."""

from kungfu_tf.engines.on_spark import run

__all__ = ["run"]
