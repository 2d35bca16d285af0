"""What codecs have in common that keep for later steps what they have not sent, e.

Source: Karimireddy et al., "Error Feedback Fixes SignSGD and other Gradient Compression Schemes",
ICML 2019, arXiv:1901.09847.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.context import graph_state
from kungfu_tf.exchange.channel import Channel
from kungfu_tf.exchange.widening import wide
from kungfu_tf.ops.members import is_variable
from kungfu_tf.replicas.average import assign_means
from kungfu_tf.upstream import generations

State = TypeVar("State")

_TITLE = "compression/error/"  # of variables, before the name of what they belong to


class KeptErrors:
    """e of each variable, in its form, zero at first: what this peer has not sent yet."""

    def __init__(self) -> None:
        self._known = graph_state.State(dict)  # by references of the variables

    def all(self) -> list[Any]:
        """Those that were created."""
        return list(self._known.get().values())

    def of(self, variables: Sequence[Any], least: int = 0) -> dict[int, Any]:
        """Those of the variables, by their places in the list, which are created if need be.

        Args:
            variables: The variables; None for a value that is of none.
            least: How many elements those have that have an e. All are floating, of a known shape.
        """
        known = self._known.get()
        for variable in map(generations.native, filter(is_variable, variables)):
            if variable.ref() not in known and _can_have_one(variable, least):
                with tf.init_scope():
                    known[variable.ref()] = new_error(variable, variable.shape)
        return by_place(variables, known)


def _can_have_one(variable: Any, least: int) -> bool:
    shape = tf.TensorShape(variable.shape)
    is_known = variable.dtype.is_floating and shape.is_fully_defined()
    return is_known and shape.num_elements() >= least


def new_error(variable: Any, shape: Any) -> Any:
    """An e of zeros.

    Args:
        variable: Whose it is.
        shape: Its own.
    """
    dtype, name = wide(variable.dtype), generations.name_of(variable).split(":")[0]
    zeros = lambda: tf.zeros(shape, dtype)  # noqa: E731
    return graph_state.variable(zeros, dtype, f"{_TITLE}{name}", device=None)


def by_place(variables: Sequence[Any], known: Mapping[Any, State]) -> dict[int, State]:
    """What is kept for those of the variables that are compressed, by their places in the list.

    Args:
        variables: The variables; None for a value that is of none.
        known: What is kept, by references of the variables.
    """
    natives = {i: generations.native(v) for i, v in enumerate(variables) if is_variable(v)}
    return {i: known[v.ref()] for i, v in natives.items() if v.ref() in known}


def with_error(value: Any, error: Any, channel: Channel) -> Any:
    """g + e in the form and the dtype of e, without the loss scale."""
    value = tf.cast(tf.reshape(value, error.shape), error.dtype)
    return value / tf.cast(channel.scale, error.dtype) + error.read_value()


def as_gradient(decoded: Any, value: Any, channel: Channel) -> Any:
    """What was decoded, in the form and the dtype of the gradient, with the loss scale."""
    scaled = decoded * tf.cast(channel.scale, decoded.dtype)
    return tf.cast(tf.reshape(scaled, tf.shape(value)), value.dtype)


def all_finite(values: Sequence[Any]) -> Any:
    """Whether each element of each value is; complex ones, too."""
    real = [abs(value) if value.dtype.is_complex else value for value in values]
    return tf.reduce_all([True, *(tf.reduce_all(tf.math.is_finite(value)) for value in real)])


def share_errors(errors: Sequence[Any], name: str) -> None:
    """Gives all peers the mean of each e. Eager; all peers call it.

    Raises:
        tf.errors.InvalidArgumentError: On all peers, if an e of a peer is not finite.
    """
    if not errors or peer.is_single_process():
        return
    _refuse_broken(errors, Channel(name))
    assign_means(errors, name=name)


def checked(errors: Sequence[Any], is_finite: Any, channel: Channel) -> Any:
    """Makes sure that gradients are to blame if a mean is not finite: an e would spoil each step.

    Args:
        errors: The e that were added to what was sent.
        is_finite: Whether all means are finite, a bool scalar, the same on all peers. If so,
            nothing is asked.
        channel: The way to the others.

    Returns:
        An operation, or a value, that all is well. It fails with an InvalidArgumentError on all
        peers, if an e of a peer is not finite.
    """
    look = lambda: _refuse_broken(errors, channel)  # noqa: E731
    return tf.cond(is_finite, lambda: tf.constant(True), look)


def _refuse_broken(errors: Sequence[Any], channel: Channel) -> Any:
    """Asks all peers which e of theirs are not finite. Fails on all of them if there are any."""
    names = [generations.name_of(e).split(":")[0].split(_TITLE)[-1] for e in errors]
    broken = tf.stack([~tf.reduce_all(tf.math.is_finite(error.read_value())) for error in errors])
    of_peers = channel.all_gather(tf.cast(broken, tf.uint8)[tf.newaxis], 0, "errors")

    def told(of_peers: Any) -> bytes:
        found = [
            f"{names[i]} on {peer.names_of([rank])}" for rank, i in np.argwhere(of_peers).tolist()
        ]
        return (_BROKEN + ", ".join(found)).encode() if found else b""

    text = tf.numpy_function(told, [of_peers], tf.string)
    is_well = tf.equal(text, "")
    with tf.control_dependencies([tf.debugging.Assert(is_well, [text])]):
        return tf.identity(is_well)


_BROKEN = (
    "the error feedback of a codec is not finite, and would spoil every step. Restore a state from "
    "before, or assign zeros to the variables in the codec's state: "
)
