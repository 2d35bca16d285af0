"""Operations in which peers only meet, or compare."""

from __future__ import annotations

from typing import Any

from kungfu_tf import _lib
from kungfu_tf.ops import kernels, naming, tensors


@kernels.operation
def barrier(*, name: str | None = None) -> Any:
    """Waits until all peers are here.

    In a `tf.function` it runs at its place among the operations that have effects. Collectives have
    none but their results, so they do not wait for it.

    Args:
        name: The same on every peer; default by the place in the program.

    Returns:
        The operation, in a TF1 graph; None in eager code.

    Example:

    ```python
    kf.run_on_root(download)
    kf.ops.barrier()
    ```
    """
    kernels.check_graph("barrier")
    return _lib.load_ops().kungfu_barrier(tag=naming.make_tag("barrier", name))


@kernels.operation
def consensus(tensor: Any, *, name: str | None = None) -> Any:
    """Whether the tensor has the same bytes on all peers.

    Args:
        tensor: A tensor; its size may differ between peers, and then the answer is no.
        name: The same on every peer; default by the place in the program.

    Returns:
        A bool scalar, the same on all peers.

    Example:

    ```python
    assert kf.ops.consensus(kf.ops.fuse(model.trainable_variables))
    ```
    """
    x = tensors.to_tensor(tensor, f"consensus '{name}'" if name else "consensus")
    return kernels.run("kungfu_consensus", x, tag=naming.make_tag("consensus", name))
