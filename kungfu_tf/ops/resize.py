"""Operations that change the list of peers.

`kungfu_tf.ops` describes what all operations have in common.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf.ops import kernels
from kungfu_tf.ops.schedule import Schedule
from kungfu_tf.ops.strategy import after_what_is_pending


@kernels.operation
def resize(n: Any, *, name: str | None = None) -> Any:
    """Asks for another number of peers, and changes over to the newest list of peers.

    As with `kungfu_tf.resize`, all peers call it at the same step, and either all change over or
    none does. It does not wait for newcomers: a later call takes them in when they are ready. In a
    function it waits for the operations that were added before it; in a TF1 graph for those of them
    that read neither data nor a placeholder. Order the others, and later operations, by
    `tf.control_dependencies` if they are in the same run. Newcomers know nothing of the training:
    if `changed` is true and `detached` is false, broadcast the variables.

    Args:
        n: The wanted number of peers, an integer scalar; rank 0's counts. The current number takes
            back an earlier request, unless the previous call asked for it, too. 0 asks for nothing.
        name: The name of the graph's operation.

    Returns:
        Two bool scalars: `changed`, whether the list of peers has changed, and `detached`, whether
        this peer has left it.

    Raises:
        tf.errors.FailedPreconditionError: On all peers, if operations of one are pending; then
            nothing has changed. On rank 0, if there cannot be that many peers.
        tf.errors.InvalidArgumentError: If `n` is negative.
        tf.errors.AbortedError: If this peer is detached already.
        tf.errors.DeadlineExceededError: If a peer did not call it in time.
        tf.errors.UnavailableError: If a peer or the launcher is gone.

    Example:

    ```python
    size = kf.ops.step_based_schedule("1:100,4:200", step)
    changed, detached = kf.ops.resize(size)
    ```
    """
    return _resize(n, "resize", name)


def resize_from_config_server() -> Any:
    """Changes over as `resize` does, to as many peers as the config server lists workers.

    The launcher watches the config server anyway; this makes it look at once.

    Returns:
        `changed` and `detached`, as `resize` does.

    Raises:
        tf.errors.FailedPreconditionError: On rank 0, if the job was started without
            `kungfu-run -config-server`, or the server does not answer; and as for `resize`.
        tf.errors.OpError: As for `resize`.
    """
    return _resize(0, "resize_from_config_server", None, from_url=True)


@kernels.operation
def step_based_schedule(schedule: str, step: Any, *, name: str | None = None) -> Any:
    """Returns the number that a schedule has for a step.

    Args:
        schedule: "4:100,8:200": 4 for the first 100 steps, then 8 from there on.
        step: An integer scalar, from 0.
        name: The name of the graph's operation.

    Returns:
        An int32 scalar.

    Raises:
        ValueError: If the schedule cannot be parsed; it says where, and why.

    Example:

    ```python
    changed, detached = kf.ops.resize(kf.ops.step_based_schedule("4:100,8:200", step))
    ```
    """
    parts = Schedule(schedule).parts
    ends, end = [], 0
    for _, steps in parts[:-1]:
        end += steps
        ends.append(end)
    passed = tf.reduce_sum(
        tf.cast(tf.cast(step, tf.int64) >= tf.constant(ends, tf.int64), tf.int32)
    )
    return tf.gather(tf.constant([size for size, _ in parts], tf.int32), passed, name=name)


def _resize(n: Any, what: str, name: str | None, **attributes: Any) -> Any:
    with after_what_is_pending(what):
        size = tf.cast(n, tf.int32)
        outputs = kernels.library().kungfu_resize(size, name=name, **attributes)
    return outputs.changed, outputs.detached
