"""What differs between peers, or never comes, is an error on every peer; the job goes on."""

from __future__ import annotations

import time

import numpy as np
import tensorflow as tf
from harness import each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.native import libraries

JOBS = [{"np": 3}]
NEEDS_KERAS = False

InvalidArgument = tf.errors.InvalidArgumentError


def mine_if_last(special, usual):
    return special if kf.rank() == kf.size() - 1 else usual


def still_works(name):
    """The next operation of the same name is matched again."""
    assert kf.ops.all_reduce(1, name=name) == kf.size()


def case_shape():
    x = tf.zeros(mine_if_last([3, 2], [2, 3]))
    text = raised_by(InvalidArgument, lambda: kf.ops.all_reduce(x, name="shape"))
    assert "'shape'" in text
    assert mine_if_last("[3,2]", "[2,3]") in text
    still_works("shape")


def case_count():
    x = tf.zeros(mine_if_last([5], [4]))
    assert "'count'" in raised_by(InvalidArgument, lambda: kf.ops.all_reduce(x, name="count"))
    still_works("count")


@each(other=["int32", "float64"])
def case_dtype(other):
    """Also of equal size."""
    name = f"dtype/{other}"
    x = tf.zeros([4], mine_if_last(other, "float32"))
    text = raised_by(InvalidArgument, lambda: kf.ops.all_reduce(x, name=name))
    assert name in text
    assert other in text
    still_works(name)


def case_op():
    op = mine_if_last("max", "sum")
    text = raised_by(InvalidArgument, lambda: kf.ops.all_reduce([1.0], op=op, name="op"))
    assert "max" in text
    assert "sum" in text
    still_works("op")


def case_root():
    root = mine_if_last(1, 0)
    raised_by(InvalidArgument, lambda: kf.ops.broadcast([1.0], root=root, name="root"))
    still_works("root")


def case_root_out_of_range():
    n = kf.size()
    raised_by(InvalidArgument, lambda: kf.ops.broadcast([1.0], root=n, name="no root"))
    still_works("no root")


def case_kind():
    collective = mine_if_last(kf.ops.all_gather, kf.ops.all_reduce)
    raised_by(InvalidArgument, lambda: collective([1.0], name="kind"))
    still_works("kind")


def case_rows_of_a_stack():
    x = tf.zeros([mine_if_last(3, 2), 2])
    raised_by(InvalidArgument, lambda: kf.ops.all_gather(x, name="stack"))
    still_works("stack")


def case_width_of_rows():
    x = tf.zeros([2, mine_if_last(3, 2)])
    raised_by(InvalidArgument, lambda: kf.ops.all_gather(x, concat=True, name="width"))
    still_works("width")


def case_rows_of_nothing():
    """Only this peer's kernel can know; the others hear of it at once."""
    x = tf.zeros([2, mine_if_last(0, 2)])
    raised_by(InvalidArgument, lambda: kf.ops.all_gather(x, concat=True, name="nothing"))
    still_works("nothing")


def case_rows_of_nothing_everywhere():
    x = tf.zeros([2, 0])
    for collective in (kf.ops.all_gather, kf.ops.gather):
        raised_by(InvalidArgument, lambda c=collective: c(x, concat=True, name="nothing at all"))
    still_works("nothing at all")


def case_a_step_that_is_no_number():
    @tf.function(input_signature=[tf.TensorSpec(None, tf.int64)])
    def run(step):
        return kf.ops.group_all_reduce([1.0], step=step, name="no step")

    assert "step" in raised_by(InvalidArgument, run, tf.constant([1, 2], tf.int64))


@each(splits=["too few", "too many", "negative", "of others"])
def case_splits(splits):
    name, n = f"splits {splits}", kf.size()
    wrong = {
        "too few": [0] * n,
        "too many": [5] * n,
        "negative": [-1, n + 1] + [0] * (n - 2),
        "of others": [1] * (n + 1),
    }[splits]
    mine = mine_if_last(wrong, [1] * n)
    text = raised_by(
        InvalidArgument, lambda: kf.ops.all_to_all(tf.zeros([n]), splits=mine, name=name)
    )
    assert mine_if_last("split", name) in text
    still_works(name)


def case_group_of_other_tensors():
    """Equal shapes at other places: the sum would be of different things."""
    x = tf.zeros([4])
    values = mine_if_last([None, x, x], [x, None, x])
    raised_by(InvalidArgument, lambda: kf.ops.group_all_reduce(values, name="places"))
    still_works("places")


def case_group_of_another_step():
    step = mine_if_last(8, 7)
    raised_by(InvalidArgument, lambda: kf.ops.group_all_reduce([1.0], step=step, name="step"))
    still_works("step")


def case_slices_of_different_matrices():
    shape = [mine_if_last(11, 10), 3]
    slices = tf.IndexedSlices(tf.zeros([2, 3]), tf.constant([0, 1]), tf.constant(shape))
    raised_by(InvalidArgument, lambda: kf.ops.all_reduce(slices, name="slices"))
    still_works("slices")


def some_slices():
    return tf.IndexedSlices(tf.ones([2, 4]), tf.constant([0, 1]), tf.constant([4, 4]))


def ones(*dtypes):
    """A group of these."""
    kinds = {None: lambda: None, "slices": some_slices}
    return [kinds.get(d, lambda d=d: tf.ones([4, 4], d))() for d in dtypes]


DIFFERING = {
    "dtypes": (["float32", "float64"], ["float32", "int32"]),
    "a dtype more": (["float32", "float64"], ["float32", None]),
    "one more": (["float32", "float64"], ["float32"]),
    "nothing": (["float32"], [None]),
    "nothing at all": (["float64"], []),
    "slices": (["float32"], ["slices"]),
    "more slices": (["slices", "slices"], ["slices", None]),
    "slices at the end": (["float32", "slices"], ["float32", None]),
}


@each(
    what=[
        "dtypes",
        "a dtype more",
        "one more",
        "nothing",
        "nothing at all",
        "slices",
        "more slices",
        "slices at the end",
    ],
    mode=["eager", "function"],
)
def case_groups_that_differ(what, mode):
    """Wherever in the group that is, and also if a peer has nothing to send."""
    values = ones(*mine_if_last(*DIFFERING[what]))
    name = f"{mode}, {what}"

    def run():
        return kf.ops.group_all_reduce(values, name=name)

    text = raised_by(InvalidArgument, run if mode == "eager" else tf.function(run))
    assert f"'{name}" in text  # whichever operation was first
    still_works(name if mode == "eager" else f"after {name}")  # see case_in_a_function


@each(other=["another dtype", "one less", "none"])
def case_variables_that_differ(other):
    variables = [tf.Variable([1.0]), tf.Variable([2.0], dtype="float64")]
    others = {
        "another dtype": lambda: [variables[0], tf.Variable([2])],
        "one less": lambda: variables[:1],
        "none": list,
    }[other]()
    mine = mine_if_last(others, variables)
    raised_by(InvalidArgument, lambda: kf.initializer.broadcast_variables(mine))
    still_works("broadcast_variables")


def case_slices_and_a_dense_tensor():
    value = mine_if_last(some_slices(), tf.ones([4, 4]))
    raised_by(InvalidArgument, lambda: kf.ops.all_reduce(value, name="dense or not"))
    still_works("dense or not")


def case_in_a_function():
    """The error of the step is the cause, not that the cause cancelled another operation.

    A step that ends early starts no further operation, so its own names may be out of step
    afterwards: what goes on is the job.
    """

    @tf.function
    def run(x):
        others = [kf.ops.all_reduce(x[0, 0], name=f"beside/{i}") for i in range(20)]
        return kf.ops.all_reduce(x, name="in a function"), others

    text = raised_by(InvalidArgument, run, tf.zeros(mine_if_last([3, 2], [2, 3])))
    assert "in a function" in text
    still_works("after a function")


@each(dtype=["string", "resource", "variant"])
def case_what_cannot_travel(dtype):
    value = {
        "string": lambda: tf.constant("text"),
        "resource": lambda: tf.Variable(1.0).handle,
        "variant": lambda: tf.data.Dataset.range(1)._variant_tensor,
    }[dtype]()
    text = raised_by(TypeError, lambda: kf.ops.all_reduce(value, name="a tensor"))
    assert dtype in text
    assert "a tensor" in text
    with tf.Graph().as_default():
        named = tf.compat.v1.placeholder(dtype, [], name="named")
        assert "named" in raised_by(TypeError, lambda: kf.ops.broadcast(named))


def case_another_op_of_the_step_fails():
    """The step ends at once: nobody else has started the operation it would wait for."""

    @tf.function
    def run(flag):
        tf.debugging.assert_equal(flag, 1, message="the reason")
        return kf.ops.all_reduce(1, name="cancelled")

    if kf.rank() == 0:
        text = raised_by(tf.errors.InvalidArgumentError, run, tf.constant(0))
        assert "the reason" in text
    kf.barrier()
    assert libraries.completed("cancelled") == 0


def until_something_waits():
    while not libraries.statistics()["pending"]:
        time.sleep(0.001)


def case_a_session_that_is_closed_in_the_middle():
    """Also when the operation waits already: its peers hear that it was cancelled."""
    if kf.rank() == 0:
        with tf.Graph().as_default():
            started = tf.py_function(until_something_waits, [], [])
            with tf.control_dependencies([started]):
                failing = tf.debugging.Assert(tf.constant(False), ["the reason"])
            y = kf.ops.all_reduce(tf.constant(1), name="waiting")
            with tf.compat.v1.Session() as session:
                text = raised_by(tf.errors.InvalidArgumentError, session.run, [y, failing])
        assert "the reason" in text
    kf.barrier(name="over")
    if kf.rank() != 0:
        raised_by(tf.errors.CancelledError, lambda: kf.ops.all_reduce(1, name="waiting"))
    still_works("waiting")


def case_xla_names_the_remedy():
    @tf.function(jit_compile=True)
    def compiled(x):
        return kf.ops.all_reduce(x)

    text = raised_by(kf.errors.UnimplementedError, compiled, tf.ones([2]))
    assert "jit_compile=False" in text


def case_numbers_stay_in_step_after_failures():
    """A peer that comes late to an operation that has failed gets its error, not the next one."""
    for i in range(3):
        x = np.zeros(2 if kf.rank() == i % kf.size() else 3)
        raised_by(InvalidArgument, lambda x=x: kf.ops.all_reduce(x, name="often"))
    still_works("often")
