"""What the running code is part of (a fit, a step, private work), and the state of its graph.

`context.current()` returns it, and `with context.within(...)` changes it.
"""

from kungfu_tf.context.surroundings import Surroundings, current, within

__all__ = ["Surroundings", "current", "within"]
