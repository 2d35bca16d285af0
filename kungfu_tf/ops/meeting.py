"""Operations by which peers wait for each other or compare.

`kungfu_tf.ops` describes what all operations have in common.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import context, groups
from kungfu_tf.groups import Group
from kungfu_tf.ops import kernels, naming, tensors


@kernels.operation
def barrier(*, name: str | None = None, group: Group | None = None) -> Any:
    """Waits until all peers are here.

    In a `tf.function` it runs in program order with all operations that have side effects.
    Collectives have none, so they do not wait for it.

    Args:
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        The operation, in a graph; None in eager code.

    Raises:
        tf.errors.InvalidArgumentError: If the name is longer than 1024 bytes, or begins with
            "kungfu/".
        tf.errors.DeadlineExceededError: If a peer does not call it within KUNGFU_COLLECTIVE_TIMEOUT
            seconds.
        tf.errors.UnavailableError: If a peer is gone.

    Example:

    ```python
    kf.run_on_root(download)
    kf.ops.barrier()
    ```
    """
    with groups.among(group):
        kernels.check_graph(naming.title("barrier", name))
        if context.current().is_alone:
            return None if tf.executing_eagerly() else tf.no_op()
        tag = naming.make_tag("barrier", name)
        return kernels.library().kungfu_barrier(**kernels.named(tag), **kernels.of_group())


@kernels.operation
def consensus(tensor: Any, *, name: str | None = None, group: Group | None = None) -> Any:
    """Tells whether a tensor has the same bytes on all peers.

    Args:
        tensor: A tensor; its size may differ between peers, and then the answer is no.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        A bool scalar, the same on all peers.

    Raises:
        UnsupportedTypeError: If the dtype cannot be sent.
        tf.errors.InvalidArgumentError: If dtypes differ between peers.

    Example:

    ```python
    assert kf.ops.consensus(kf.ops.fuse(model.trainable_variables))
    ```
    """
    with groups.among(group):
        x = tensors.to_tensor(tensor, naming.title("consensus", name))
        return kernels.run("kungfu_consensus", x, tag=naming.make_tag("consensus", name))
