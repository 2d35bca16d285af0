"""Queues from one peer to another. `kungfu_tf.ops` describes what all operations have in common."""

from __future__ import annotations

import collections
import threading
from typing import Any

from kungfu_tf.ops import kernels, store, tensors

_lock = threading.Lock()
_made: collections.Counter[tuple[int, int]] = collections.Counter()


class Queue:
    """Tensors that rank `src` puts and rank `dst` gets, in the order in which they were put.

    Made by `new_queue`.
    """

    def __init__(self, src: int, dst: int, tag: str, capacity: int, timeout: float | None) -> None:
        self._src = src
        self._dst = dst
        self._tag = tag
        self._capacity = capacity
        self._timeout = timeout or 0.0

    @kernels.operation
    def put(self, value: Any) -> Any:
        """Puts a tensor into the queue, on rank `src`. It is copied.

        Waits while the queue holds `capacity` tensors.

        Args:
            value: A tensor.

        Returns:
            The operation, in a graph; None in eager code.

        Raises:
            UnsupportedTypeError: If the dtype cannot be sent.
            tf.errors.InvalidArgumentError: On a rank other than `src`.
            tf.errors.DeadlineExceededError: If the queue stayed full; the tensor is not in it then.
        """
        kernels.check_graph(f"put into queue '{self._tag}'")
        return kernels.library().kungfu_put(
            tensors.to_tensor(value, f"put into queue '{self._tag}'"),
            tag=self._tag,
            source=self._src,
            capacity=self._capacity,
            timeout=self._timeout,
        )

    @kernels.operation
    def get(self, dtype: Any, shape: Any) -> Any:
        """Takes the next tensor out of the queue, on rank `dst`, and waits for it if necessary.

        Args:
            dtype: Its type.
            shape: Its whole shape.

        Returns:
            The tensor.

        Raises:
            InvalidArgumentError: If the shape is not fully known.
            UnsupportedTypeError: If the dtype cannot be sent.
            tf.errors.InvalidArgumentError: On a rank other than `dst`; or if the next tensor has
                another dtype or shape: it stays in the queue.
            tf.errors.DeadlineExceededError: If none came in time.
            tf.errors.UnavailableError: If rank `src` is gone.
        """
        kernels.check_graph(f"get from queue '{self._tag}'")
        spec = store.whole_spec(shape, dtype, f"get from queue '{self._tag}'")
        return kernels.library().kungfu_get(
            T=spec.dtype,
            shapes=[spec.shape],
            tag=self._tag,
            source=self._src,
            target=self._dst,
            timeout=self._timeout,
        )


def new_queue(
    src: int,
    dst: int,
    *,
    capacity: int = 16,
    timeout: float | None = None,
    name: str | None = None,
) -> Queue:
    """Makes a queue from one peer to another.

    Both peers must make it. Queues between the same two peers are matched by name or, without one,
    by the order in which they are made.

    Args:
        src: The rank that puts tensors in.
        dst: The rank that gets them.
        capacity: How many tensors may be in it before `put` waits.
        timeout: How many seconds `put` and `get` wait. Default: KUNGFU_COLLECTIVE_TIMEOUT.
        name: The same on both peers.

    Returns:
        A `Queue` with `put(value)` and `get(dtype, shape)`.

    Raises:
        ValueError: If the capacity is not positive.
        InvalidArgumentError: If the timeout is not.

    Example:

    ```python
    queue = kf.ops.new_queue(0, 1)
    if kf.rank() == 0:
        queue.put(tf.range(10))
    elif kf.rank() == 1:
        print(queue.get(tf.int32, [10]))
    ```
    """
    if capacity < 1:
        raise ValueError(f"a queue's capacity is at least 1, not {capacity}")
    store.check_timeout(timeout, "new_queue")
    with _lock:
        number = _made[src, dst]
        _made[src, dst] += name is None
    tag = f"queue/{src}-{dst}/{number if name is None else name}"
    return Queue(src, dst, tag, capacity, timeout)
