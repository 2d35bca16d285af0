"""`launch`: a function, run by several processes of this machine, from a notebook or a script.

    caller ── runner ──┬─ child 0
                       └─ child 1 …

The runner is a process that does what `kungfu-run` does. The runner and the children are new
interpreters: a process in which TensorFlow has threads is never forked, and the caller's program is
not run again. The function is sent by value (cloudpickle) if the caller's program or notebook
defines it, else by the name of its module. Results and exceptions are sent back.

A pickle can make its reader run any code. So pickles go only from the caller to its own children
and back, in files without a name that only the children inherit, and never over a connection
between peers. The children run the caller's code as its user: it can trust them as itself.
"""

from kungfu_tf.function_launch.function import launch

__all__ = ["launch"]
