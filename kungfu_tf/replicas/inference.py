"""Checks that all models compute the same, with samples of rank 0: one before the first step.

The variables are equal then. Models may still differ in constants that were drawn while they were
built, or in their code. All peers infer the sample, and compare 8 bytes of the result. Only if
these differ they look closer: whether by more than rounding, in which layer first, and whether that
layer is random by design.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import errors, peer
from kungfu_tf.ops import uneven_rows
from kungfu_tf.ops.any_tensors import gather_any
from kungfu_tf.replicas import hidden_state
from kungfu_tf.replicas.broadcast import values_from_root
from kungfu_tf.replicas.equality import digests_of
from kungfu_tf.replicas.layer_outputs import outputs_of_layers, tensors_in
from kungfu_tf.replicas.rounding import is_rounding
from kungfu_tf.replicas.untouched import untouched
from kungfu_tf.upstream import generations

_NAME = "check_inference"
_DIGESTS = f"{_NAME}/digests"


def check_same(model: Any, batch: Any) -> None:
    """Raises, on every peer, unless all models compute the same. Eager.

    It checks a model once for each list of peers.

    Args:
        model: A Keras model, whose variables are equal on all peers.
        batch: The first batch that this peer trains on; None if there is none.

    Raises:
        DivergenceError: If models differ. It names the table, the variable or the first layer that
            does.
        tf.errors.OpError: As any collective.
    """
    version = peer.membership_version()
    is_done = vars(model).get("_kungfu_compared") == version
    sample = _of_root(None if is_done else _inputs(model, batch, _first_row))
    vars(model)["_kungfu_compared"] = version
    if sample is not None:
        with untouched(model):
            _check(model, sample, "before the first step")


def check_predictions(model: Any, batch: Any, when: str) -> bool:
    """`check_same` on all samples of rank 0's batch, with its moving statistics.

    Args:
        model: A Keras model.
        batch: One that this peer trains on; None if there is none.
        when: Ends the message: "after the first step".

    Returns:
        Whether there was a batch.

    Raises:
        DivergenceError: As from `check_same`.
    """
    samples = _of_root(_inputs(model, batch, lambda part: part))
    if samples is None:
        return False
    with untouched(model):
        values_from_root([variable for _, variable in generations.moved_variables(model)], root=0)
        _check(model, samples, when)
    return True


def _check(model: Any, sample: Any, when: str) -> None:
    output = _infer(model, sample)
    hidden = hidden_state.found_in(model)
    digests = [_digest(output), *(part.digest for part in hidden)]
    rows = uneven_rows.gather(digests, name=_DIGESTS)
    _check_hidden(hidden, [row[1:] for row in rows], when)
    if len({row[0] for row in rows}) > 1 and _is_beyond_rounding(output):
        _name_first_layer(model, sample, when)


def _of_root(x: Any) -> Any:
    """Rank 0's x, in this peer's structure. None: it has none."""
    mine = tf.nest.flatten(x, expand_composites=True) if peer.is_root() and x is not None else []
    [parts, *_] = gather_any(mine, name=f"{_NAME}/sample")
    if not parts:
        return None
    try:
        return tf.nest.pack_sequence_as(x, [tf.constant(p) for p in parts], expand_composites=True)
    except (TypeError, ValueError):
        return _OTHER


_OTHER: Any = object()  # the sample, where this peer's batches have another structure


def _inputs(model: Any, batch: Any, part_of: Callable[[Any], Any]) -> Any:
    """This part of x of a batch; None if there is no batch, or x is unknown."""
    if batch is None:
        return None
    try:
        x = generations.package_of(model).module.utils.unpack_x_y_sample_weight(batch)[0]
        sample = tf.nest.map_structure(part_of, x)
    except (TypeError, ValueError, tf.errors.InvalidArgumentError):
        return None  # a train step of the model's own takes such batches
    is_empty = any(int(tf.shape(part)[0]) == 0 for part in tf.nest.flatten(sample))
    return None if is_empty else sample


def _first_row(part: Any) -> Any:
    if isinstance(part, tf.SparseTensor):
        size = tf.concat([[1], part.dense_shape[1:]], 0)
        return tf.sparse.slice(part, tf.zeros_like(part.dense_shape), size)
    return part[:1] if isinstance(part, tf.RaggedTensor) else tf.convert_to_tensor(part)[:1]


def _infer(model: Any, sample: Any) -> list[Any] | None:
    """The tensors of the model's output; None if the model cannot be called with the sample."""
    if sample is _OTHER:
        return None
    try:
        output = model(sample, training=False)
    except Exception:  # whatever the program's own code raises
        return None
    return tensors_in(output)


def _digest(arrays: Sequence[Any] | None) -> int:
    if arrays is None:
        return 0
    return hash(tuple(digests_of(arrays).tolist()))


def _check_hidden(
    hidden: Sequence[hidden_state.Hidden], rows: Sequence[uneven_rows.Row], when: str
) -> None:
    if len({len(row) for row in rows}) > 1:
        numbers = ", ".join(f"{len(row)} on rank {rank}" for rank, row in enumerate(rows))
        raise errors.DivergenceError(
            f"the peers' models have different numbers of tables and untracked variables {when}: "
            f"{numbers}"
        )
    for part, *digests in zip(hidden, *rows, strict=True):
        ranks = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
        if ranks:
            raise _divergence(
                f"{part.label} differs from rank 0's on {peer.names_of(ranks)} {when}. It is no "
                "weight of the model, so nothing has made it equal. Adapt a layer to the data of "
                "all, by kungfu_tf.data.adapt(layer, dataset) or before kungfu_tf.data.shard; give "
                "all peers the same vocabulary; make a variable by add_weight"
            )


def _is_beyond_rounding(mine: Sequence[Any] | None) -> bool:
    """Whether these arrays differ between peers by more than rounding on other processors may."""
    of_ranks = gather_any([mine is None, *(mine or [])], name=f"{_NAME}/values")
    root = of_ranks[0]
    return not all(
        len(arrays) == len(root) and all(map(is_rounding, arrays, root)) for arrays in of_ranks[1:]
    )


def _name_first_layer(model: Any, sample: Any, when: str) -> None:
    """Raises for the first layer that differs, unless one that is random by design comes before.

    All peers decide alike, since they look at what all have gathered.
    """
    outputs, again = (outputs_of_layers(model, lambda: _infer(model, sample)) for _ in range(2))
    digests = [_digest(output) for _, output in [*outputs, *again]]
    rows = uneven_rows.gather([len(outputs), *digests], name=_DIGESTS)
    if len({(row[0], len(row)) for row in rows}) > 1 or len(again) != len(outputs):
        _raise_for(f"model '{model.name}'", rows, 0, when)
    for i, (name, output) in enumerate(outputs, start=1):
        if any(row[i] != row[i + len(outputs)] for row in rows):
            return
        if len({row[i] for row in rows}) > 1 and _is_beyond_rounding(output):
            _raise_for(name, rows, i, when)


def _raise_for(name: str, rows: Sequence[uneven_rows.Row], place: int, when: str) -> None:
    ranks = [rank for rank, row in enumerate(rows) if row[place] != rows[0][place]]
    raise _divergence(
        f"the output of {name} differs from rank 0's on {peer.names_of(ranks)} {when}, for "
        "samples of rank 0's and with equal variables. Each peer seems to have drawn or computed a "
        "constant for itself when the layer was built. Call keras.utils.set_random_seed with one "
        "seed on all peers before, compute it from the same data, or make it a weight by "
        "add_weight(trainable=False), which all get from rank 0. A model that depends on the rank "
        "by design needs a kungfu_tf.callbacks.BroadcastGlobalVariablesCallback(check_every=None)"
    )


def _divergence(message: str) -> errors.DivergenceError:
    return errors.DivergenceError(errors.linked("computes-something-else", message))
