"""The store: tensors that one peer keeps and others request. `kungfu_tf.ops` describes what all
operations have in common.

Unlike a collective, such an operation is between two peers, and only the program of one of them
calls it. In a `tf.function` they run in the order of the program; in a TF1 graph, in the order of
its dependencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.ops import kernels, naming, tensors
from kungfu_tf.upstream import generations

_NEXT_OR_NEWEST = -1


@kernels.operation
def save_variable(value: Any, *, version: Any = None, name: str | None = None) -> Any:
    """Keeps a copy of a tensor for other peers to request.

    The newest KUNGFU_STORE_VERSIONS (3) versions of each name are kept. It does not wait for other
    peers.

    Args:
        value: A variable or tensor.
        version: An integer scalar, greater than the last version saved under this name.
            Default: the next one, from 0.
        name: The name to request it by. Default: the variable's own (`v.name`, as "weights:0";
            Keras 3: `v.path`), which may differ between peers that have built different models. A
            tensor needs a name.

    Returns:
        The version, an int64 scalar.

    Raises:
        InvalidArgumentError: If there is no name, or the version is negative.
        UnsupportedTypeError: If the dtype cannot be sent.
        tf.errors.InvalidArgumentError: If the version is not greater than the last.
        tf.errors.ResourceExhaustedError: If there is no memory for the copy.

    Example:

    ```python
    kf.ops.save_variable(weights, version=step, name="weights")
    kf.ops.request_variable_with_template((kf.rank() + 1) % kf.size(), weights, version=step)
    ```
    """
    tag = _name_of(value, name, "save_variable")
    _check_version(version, f"save_variable '{tag}'")
    return save_group([tensors.to_tensor(value, f"save_variable '{tag}'")], tag, version)


@kernels.operation
def save_variables(variables: Sequence[Any]) -> list[Any]:
    """Calls `save_variable` for each variable, under its own name.

    Args:
        variables: `tf.Variable`s or Keras variables.

    Returns:
        Their versions.

    Raises:
        UnsupportedTypeError: If a dtype cannot be sent.
        tf.errors.ResourceExhaustedError: If there is no memory for the copies.

    Example:

    ```python
    kf.ops.save_variables(model.trainable_variables)
    ```
    """
    return [save_variable(variable) for variable in variables]


@kernels.operation
def request_variable(
    target: Any,
    *,
    name: str,
    shape: Any,
    dtype: Any,
    version: Any = None,
    wait: bool = True,
    timeout: float | None = None,
) -> Any:
    """Returns what another peer has saved, without delaying that peer.

    Args:
        target: The rank of the peer, an integer scalar; may be this one.
        name: The name under which it was saved there.
        shape: Its whole shape.
        dtype: Its type.
        version: The version, an integer scalar. Default: the newest.
        wait: Whether to wait for a tensor that is not there yet.
        timeout: How many seconds to wait. Default: KUNGFU_COLLECTIVE_TIMEOUT.

    Returns:
        The tensor.

    Raises:
        InvalidArgumentError: If the shape is not whole, the version is negative, or the timeout is
            not positive.
        UnsupportedTypeError: If the dtype cannot be sent.
        tf.errors.NotFoundError: If `wait` is False, and it is not there or that peer has ended
            normally. In a job of `-on-failure survive`, also if that peer is lost.
        tf.errors.OutOfRangeError: If the version is no longer kept, or was skipped.
        tf.errors.InvalidArgumentError: If it has another dtype or shape, or there is no such rank.
        tf.errors.DeadlineExceededError: If it did not come in time.
        tf.errors.UnavailableError: If that peer is gone for another reason.
        tf.errors.ResourceExhaustedError: If 1024 requests of this peer are waiting there already.

    Example:

    ```python
    theirs = kf.ops.request_variable(0, name="step", shape=[], dtype=tf.int64)
    ```
    """
    what = f"request_variable '{name}'"
    _check_version(version, what)
    check_timeout(timeout, what)
    specs = [whole_spec(shape, dtype, what)]
    values, _ = request_group(target, specs, name, version, wait=wait, timeout=timeout)
    return values[0]


@kernels.operation
def request_variable_with_template(
    target: Any,
    template: Any,
    *,
    version: Any = None,
    name: str | None = None,
    wait: bool = True,
    timeout: float | None = None,
) -> Any:
    """`request_variable` with the shape and dtype of a variable of this peer.

    Args:
        target: The rank of the peer.
        template: A variable or tensor of the same shape and dtype. It is not changed.
        version: As for `request_variable`.
        name: As for `save_variable`.
        wait: As for `request_variable`.
        timeout: As for `request_variable`.

    Returns:
        The tensor.

    Raises:
        InvalidArgumentError: If there is no name, or as from `request_variable`.
        tf.errors.OpError: As from `request_variable`.

    Example:

    ```python
    weights.assign(kf.ops.request_variable_with_template(0, weights))
    ```
    """
    tag = _name_of(template, name, "request_variable_with_template")
    return request_variable(
        target,
        name=tag,
        shape=template.shape,
        dtype=template.dtype,
        version=version,
        wait=wait,
        timeout=timeout,
    )


def save_group(values: Sequence[Any], tag: str, version: Any = None, *, keep: int = 0) -> Any:
    """Saves tensors of one dtype together, keeping `keep` versions; returns the version.

    Args:
        values: The tensors.
        tag: Their name.
        version: As for `save_variable`.
        keep: The number of versions to keep; 0 for KUNGFU_STORE_VERSIONS.
    """
    kernels.check_graph(f"save '{tag}'")
    return kernels.library().kungfu_save(
        list(values), _version(version), keep=keep, **kernels.named(tag)
    )


def request_group(
    target: Any,
    specs: Sequence[tf.TensorSpec],
    tag: str,
    version: Any = None,
    *,
    wait: bool = True,
    timeout: float | None = None,
) -> tuple[list[Any], Any]:
    """The tensors that were saved together, and their version."""
    kernels.check_graph(f"request '{tag}'")
    outputs, saved = kernels.library().kungfu_request(
        tf.cast(target, tf.int32),
        _version(version),
        N=len(specs),
        **_expected(specs, timeout),
        **kernels.named(tag),
        wait=wait,
    )
    return list(outputs), saved


def prefetch(
    target: Any, specs: Sequence[tf.TensorSpec], tag: str, version: Any = None, *, wait: bool
) -> Any:
    """Begins to request tensors that were saved together; one request per tag at a time."""
    kernels.check_graph(f"prefetch '{tag}'")
    return kernels.library().kungfu_prefetch(
        tf.cast(target, tf.int32), _version(version), tag=tag, **_expected(specs, None), wait=wait
    )


def prefetched(otherwise: Sequence[Any], tag: str) -> tuple[list[Any], Any]:
    """Returns the tensors of a `prefetch`, and their version; waits until they are here.

    Args:
        otherwise: The result, with version −1, if there was no `prefetch`, or it found nothing.
        tag: The tag of the `prefetch`.
    """
    kernels.check_graph(f"prefetched '{tag}'")
    outputs, saved = kernels.library().kungfu_prefetched(list(otherwise), tag=tag)
    return list(outputs), saved


def forget(prefix: str) -> None:
    """Drops this peer's tensors and prefetches whose names begin with `prefix`.

    Eager. Their versions begin at 0 again.
    """
    kernels.library().kungfu_forget(prefix=prefix)


def whole_spec(shape: Any, dtype: Any, what: str) -> tf.TensorSpec:
    """Returns the spec of a requested tensor, after checking its shape and dtype."""
    spec = tf.TensorSpec(shape, dtype)
    tensors.check_dtype(spec.dtype, "what is asked for", what)
    if not spec.shape.is_fully_defined():
        raise errors.InvalidArgumentError(
            f"{what}: the whole shape must be known, not {spec.shape}"
        )
    return spec


def check_timeout(timeout: float | None, what: str) -> None:
    """Raises InvalidArgumentError unless `timeout` is None or positive."""
    if timeout is not None and not timeout > 0:
        raise errors.InvalidArgumentError(
            f"{what}: timeout must be positive seconds, or None, not {timeout}"
        )


def _check_version(version: Any, what: str) -> None:
    """Raises InvalidArgumentError if the version is known to be negative."""
    number = None if version is None else tf.get_static_value(tf.convert_to_tensor(version))
    if number is not None and number < 0:
        raise errors.InvalidArgumentError(f"{what}: version must not be negative, as {number} is")


def _expected(specs: Sequence[tf.TensorSpec], timeout: float | None) -> dict[str, Any]:
    return {
        "T": specs[0].dtype,
        "shapes": [spec.shape for spec in specs],
        "timeout": timeout or 0.0,
    }


def _version(version: Any) -> Any:
    return tf.cast(_NEXT_OR_NEWEST if version is None else version, tf.int64)


def _name_of(value: Any, name: str | None, op: str) -> str:
    if name:
        return name
    if isinstance(generations.native(value) if hasattr(value, "value") else value, tf.Variable):
        return generations.name_of(value)
    raise errors.InvalidArgumentError(
        f"{naming.title(op, None)}: a tensor has no name that others could ask for; give name="
    )
