"""Programs that were written for other libraries, as they are.

    from kungfu_tf import compat

    compat.install("kungfu")    import kungfu... means the modules of kungfu_tf.compat
    compat.install("horovod")   import horovod... likewise
    compat.install("bluefog")   import bluefog... likewise
    compat.install("tf1")       import tensorflow means tensorflow.compat.v1

`kungfu-run -compat kungfu,tf1 python old_program.py` does so before the program begins, in all
Python processes of the job, and the program needs no edit.

**kungfu** has KungFu's public functions and classes with their signatures and positional arguments.
They do what `kungfu_tf` does, so errors, deadlines and checks are ours. A name or module that is
not there is an ImportError or AttributeError whose message says why: `kungfu_tf.compat.missing`
lists them.

**horovod** has the names of `horovod.tensorflow`, `horovod.keras` and `horovod.tensorflow.keras`,
with Horovod's signatures and conventions: means of integers, the gradients of its operations, the
classes of its errors, `initial_lr`. Elastic jobs are there.

**bluefog** has the names of `bluefog.tensorflow` and `bluefog.common.topology_util`. Also in
`bluefog.tensorflow` are those of `bluefog.torch` that mean something for tensors of TensorFlow:
operations of neighbours, and windows. It needs networkx.

**tf1** is for the program and the modules that lie beside it: installed packages, such as its
libraries, get TensorFlow as it is. The program's first `import tensorflow` also turns the behaviour
of TensorFlow 2 off, as `tf.compat.v1.disable_v2_behavior()` does. There is what
`tensorflow.compat.v1` has: with `tf.layers` and Estimators on TF 2.15, without them since 2.16, and
never `tf.contrib`. A Keras `fit` in a graph averages gradients and starts all peers equal. Its
other features in `kungfu_tf` (metrics, files, uneven data) need Keras without tf1.
"""

from __future__ import annotations

from collections.abc import Callable

from kungfu_tf import config
from kungfu_tf.compat import _packages, _tf1

__all__ = ["install"]

_INSTALLERS: dict[str, Callable[[], None]] = {
    "kungfu": lambda: _packages.install("kungfu"),
    "tf1": _tf1.install,
    "horovod": lambda: _packages.install("horovod"),
    "bluefog": lambda: _packages.install("bluefog"),
}
assert tuple(_INSTALLERS) == config.COMPAT_NAMES


def install(name: str) -> None:
    """Stands in for a library, from the next import on. A second time it does nothing.

    Args:
        name: "kungfu", "horovod", "bluefog" or "tf1": see above.

    Raises:
        ValueError: If there is no such name.
        FailedPreconditionError: If the program has imported the real package already.

    Example:

    ```python
    from kungfu_tf import compat

    compat.install("kungfu")
    from kungfu.tensorflow.optimizers import SynchronousSGDOptimizer
    ```
    """
    for known in config.compat_names(name):
        _INSTALLERS[known]()
