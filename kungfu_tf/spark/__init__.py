"""Jobs on a Spark cluster."""

from kungfu_tf.engines.on_spark import run, trials

__all__ = ["run", "trials"]
