"""`launch`: a function, run by several processes of this machine, from a notebook or a script.

    caller ── runner ──┬─ child 0
                       └─ child 1 …

The runner is a process that does what `kungfu-run` does. It and the children are new interpreters:
nothing is forked that TensorFlow has threads in, and the caller's program is not run again. The
function travels by value (cloudpickle) if the caller's program or notebook defines it, else by the
name of its module. Results and exceptions travel back.

Pickles can make their reader run any code. So they go only from the caller to its own children and
back, by files without a name that only the children inherit. They never pass a connection between
peers. Children run the caller's code as its user: it trusts them as it trusts itself.
"""

from kungfu_tf.function_launch.function import launch

__all__ = ["launch"]
