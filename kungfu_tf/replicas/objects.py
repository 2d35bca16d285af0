"""Python objects between peers, in eager code and in programs of TF1 alike."""

from __future__ import annotations

import contextlib
import pickle as pickles
from collections.abc import Callable
from typing import Any

import cloudpickle

from kungfu_tf import config, context, errors, groups, peer
from kungfu_tf.groups import Group
from kungfu_tf.native import calls
from kungfu_tf.replicas import encoding

_FAILED = 1 << 61  # a digest that no call has whose object could be sent


def broadcast_object(
    obj: Any,
    *,
    root: int = 0,
    pickle: bool = False,
    name: str = "object",
    group: Group | None = None,
) -> Any:
    """Gives all peers the object of one of them. All peers call it, in the same order.

    Only plain objects travel, whose bytes run no code where they are read.

    Args:
        obj: None, bool, int, float, str, bytes, NumPy arrays and scalars of numbers, and lists,
            tuples and dicts of these. It counts on the root alone.
        root: The rank whose object all get.
        pickle: Whether it may be any object that cloudpickle takes. A pickle can run code, so it
            comes from peers of the job only, which have proved that they know its secret.
        name: The same on every peer.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        The root's object: on the root itself, and elsewhere an equal one.

    Raises:
        UnsupportedTypeError: On the root, if it is none of these; on others an error follows.
        InvalidArgumentError: If `root` is no rank, or `root` or `pickle` differ between peers.
        FailedPreconditionError: With `pickle`, in a job of several hosts without a secret.
        KungfuError: As from `kungfu_tf.barrier`.

    Example:

    ```python
    options = kf.broadcast_object({"rate": rate, "classes": names})
    ```
    """
    with groups.among(group):
        if not 0 <= root < peer.size():
            raise errors.InvalidArgumentError(
                f"broadcast_object: root {root} is no rank of {peer.size()} peers"
            )
        is_root = context.current().is_alone or peer.rank() == root
        received = _gathered(
            lambda: _dump(obj, pickle) if is_root else b"", name, pickle, digest=2 * root + pickle
        )
    if is_root:
        return obj
    # Not by its rank, which is another one if a peer was lost meanwhile.
    sent = [data for data in received if data]
    if not sent:
        raise errors.UnavailableError(f"broadcast_object: its root, rank {root}, is lost")
    return _load(sent[0], pickle)


def all_gather_object(
    obj: Any, *, pickle: bool = False, name: str = "object", group: Group | None = None
) -> list[Any]:
    """Gives every peer the objects of all peers. All peers call it, in the same order.

    Args:
        obj: This peer's object, as for `broadcast_object`.
        pickle: As for `broadcast_object`.
        name: The same on every peer.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        The objects, in the order of their ranks.

    Raises:
        UnsupportedTypeError: If it is not a plain object, and `pickle` was not asked for.
        InvalidArgumentError: If `pickle` differs between peers.
        FailedPreconditionError: As from `broadcast_object`.
        KungfuError: As from `kungfu_tf.barrier`.

    Example:

    ```python
    losses = kf.all_gather_object({"loss": float(loss), "samples": len(batch)})
    ```
    """
    with groups.among(group):
        received = _gathered(lambda: _dump(obj, pickle), name, pickle, digest=pickle)
    return [_load(data, pickle) for data in received]


def _gathered(dump: Callable[[], bytes], name: str, pickle: bool, *, digest: int) -> list[bytes]:
    """The bytes of all peers. If `dump` fails on one of them, the others learn of it at once."""
    is_alone = context.current().is_alone or peer.is_single_process()
    try:
        _check_secret(pickle)
        mine = dump()
    except Exception:
        if not is_alone:
            with contextlib.suppress(errors.KungfuError):
                calls.gather_bytes(b"", name, digest=_FAILED)
        raise
    return [mine] if is_alone else calls.gather_bytes(mine, name, digest=digest)


def _check_secret(pickle: bool) -> None:
    """The same on all peers. Without a secret a stranger could be one of them."""
    if pickle and config.INSECURE.get():
        raise errors.FailedPreconditionError(
            "this job has no secret (kungfu-run -insecure): any process could send a pickle, which "
            "may run code"
        )


def _dump(obj: Any, pickle: bool) -> bytes:
    data: bytes = cloudpickle.dumps(obj) if pickle else encoding.encode(obj)
    return data


def _load(data: bytes, pickle: bool) -> Any:
    return pickles.loads(data) if pickle else encoding.decode(data)
