"""What trains and is not verified: at the end of the program its variables are compared.

Gradients that are exchanged say so, outside of all that is verified.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import config, context, errors, peer
from kungfu_tf.replicas.equality import check_equal
from kungfu_tf.upstream import generations
from kungfu_tf.verification.account import say

OWN_MODELS = "each peer trains a model of its own, by design"
OWN_SLOTS = "each peer has the slots of some variables only, and no process updates all of them"
_HOW = "give the loop's step, a function of a batch, to kungfu_tf.verify(step)"

_trained: dict[int, Any] = {}
_of_own: set[int] = set()
_at_end: list[Callable[[], None]] = []


def why_not(algorithm: Any) -> str:
    """Why the updates of an algorithm are not compared with those of one process, or nothing."""
    if not algorithm.keeps_equal:
        return OWN_MODELS
    return OWN_SLOTS if algorithm.is_sharded else ""


def note_graph(*, keeps_equal: bool) -> None:
    """Notes that peers exchange gradients in a TF1 graph. Its sessions tell what they verify.

    Args:
        keeps_equal: Whether what is trained stays equal on all peers. Else no session knows of it.
    """
    if not keeps_equal and _say_of_graphs not in _at_end:
        at_end(_say_of_graphs)


def note(variables: Sequence[Any], *, keeps_equal: bool) -> None:
    """Notes that peers exchange gradients of these.

    Args:
        variables: What is trained.
        keeps_equal: Whether they stay equal on all peers.
    """
    here = context.current()
    is_known = here.is_verified or here.fit is not None or here.is_private or here.is_rehearsal
    is_eager = tf.compat.v1.executing_eagerly_outside_functions()
    if not config.VERIFY.get() or is_known or not is_eager or peer.is_single_process():
        return
    if not _trained:
        at_end(_say)
    for variable in variables:
        if hasattr(variable, "assign"):
            _trained[id(variable)] = generations.native(variable)
            if not keeps_equal:
                _of_own.add(id(variable))


def at_end(say_so: Callable[[], None]) -> None:
    """Calls this when the program has ended without an error, while the peers can still talk."""
    if not _at_end:
        peer.init()  # what ends the peer was registered before
        atexit.register(_end)
    _at_end.append(say_so)


def _end() -> None:
    if getattr(sys, "last_value", None) is not None:  # the program has failed
        return
    try:
        for say_so in _at_end:
            say_so()
    except errors.KungfuError:
        traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
    except tf.errors.OpError as error:
        say(f"the variables could not be compared at the end: {error.message}")


def _say_of_graphs() -> None:
    say(f"nothing is verified of sessions: {OWN_MODELS}")


def _say() -> None:
    if _of_own:
        say(f"nothing is verified of a loop: {OWN_MODELS}")
        return
    check_equal(list(_trained.values()), "at the end")
    say(
        "nothing is verified of a loop but that its variables are equal on all peers at the end "
        f"({len(_trained)} variables). To verify its steps, {_HOW}"
    )
