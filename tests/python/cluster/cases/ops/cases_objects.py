"""Python objects between peers: they arrive as they were sent, or all peers get an error."""

from __future__ import annotations

import functools
import math

import ml_dtypes
import numpy as np
import tensorflow as tf
from harness import each
from support import operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf import errors

JOBS = [{"np": 1}, {"np": 3}]
NEEDS_KERAS = False

DTYPES = ["bool", "int8", "uint16", "int64", "float16", "float64", "complex64"]


def plain(rank):
    """An object with everything that travels without a pickle. Its size depends on the rank."""
    return {
        "none": None,
        "bools": (True, False),
        "ints": [0, -1, 2**70 + rank],
        "floats": [0.1 * rank, math.inf, -0.0],
        "text": "Kräfte " * rank,
        b"bytes": bytes(range(256)) * rank,
        7: [[], (), {}, [[rank]]],
        "arrays": [np.arange(5 * rank).astype(name).reshape(rank, 5) for name in DTYPES],
        "zeros": [
            np.array(rank),
            np.zeros((0, 3), np.float32),
            np.array([1.5], ml_dtypes.bfloat16),
        ],
        "scalars": (np.float32(0.1), np.int16(-rank), np.bool_(True)),
    }


def same(x, y):
    """Whether two objects are equal, with their types and dtypes."""
    if type(x) is not type(y):
        return False
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, dict):
        return same(list(x), list(y)) and same(list(x.values()), list(y.values()))
    return x == y


@each(pickle=[False, True])
def case_broadcast(pickle):
    for root in range(kf.size()):
        before = operations_done()
        found = kf.broadcast_object(plain(kf.rank()), root=root, pickle=pickle)
        assert same(found, plain(root)), found
        assert operations_done() - before == (kf.size() > 1)


@each(pickle=[False, True])
def case_all_gather(pickle):
    found = kf.all_gather_object(plain(kf.rank()), pickle=pickle)
    assert same(found, [plain(rank) for rank in range(kf.size())]), found


def case_what_others_have_does_not_count():
    found = kf.broadcast_object({1, 2} if kf.rank() else "root's")
    assert found == "root's"


def case_arrays_can_be_changed():
    found = kf.all_gather_object(np.zeros(3))
    for array in found:
        array += 1


def case_much():
    mine = np.random.default_rng(kf.rank()).bytes((3 << 20) + kf.rank())
    found = kf.all_gather_object(mine)
    assert [len(each) for each in found] == [(3 << 20) + rank for rank in range(kf.size())]
    assert found[kf.rank()] == mine
    assert kf.broadcast_object(mine, root=kf.size() - 1) == found[-1]


def case_any_object_as_a_pickle():
    scaled = functools.partial(lambda factor, x: factor * x, kf.rank() + 1)
    functions = kf.all_gather_object(scaled, pickle=True)
    assert [function(10) for function in functions] == [10, 20, 30][: kf.size()]
    assert kf.broadcast_object({kf.rank(), "set"}, pickle=True) == {0, "set"}


def case_in_a_graph():
    with tf.Graph().as_default():
        assert kf.broadcast_object(kf.rank(), root=kf.size() - 1) == kf.size() - 1


def still_works():
    assert kf.all_gather_object(kf.rank()) == list(range(kf.size()))


def case_an_object_that_does_not_travel():
    """Whoever has it learns which, and the others at once that there was one."""
    mine = {"rate": [1, {2}]} if kf.rank() == 0 else 0
    expected = errors.UnsupportedTypeError if kf.rank() == 0 else errors.InvalidArgumentError
    for send in (kf.all_gather_object, kf.broadcast_object):
        text = raised_by(expected, lambda send=send: send(mine))
        if kf.rank() == 0:
            assert "part 1 of part 1 of the object is a builtins.set" in text, text
            assert "pickle=True" in text
        still_works()


def case_no_rank():
    for root in (-1, kf.size()):
        text = raised_by(
            errors.InvalidArgumentError, lambda root=root: kf.broadcast_object(1, root=root)
        )
        assert f"root {root} is no rank" in text


def case_peers_that_differ():
    if kf.size() > 1:
        is_first = kf.rank() == 0
        calls = (
            lambda: kf.broadcast_object(1, root=int(is_first)),
            lambda: kf.broadcast_object(1, pickle=is_first),
            lambda: kf.all_gather_object(1, pickle=is_first),
        )
        for call in calls:
            raised_by(errors.InvalidArgumentError, call)
            still_works()
