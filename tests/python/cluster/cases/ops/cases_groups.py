"""Groups of peers: every collective by its definition, among the members; errors; training."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each
from support import arrays, check, raised_by, reduced

import kungfu_tf as kf
from kungfu_tf import errors

JOBS = [{"np": 4}]
NEEDS_KERAS = True

RANKS = [(0, 2), (1, 2, 3), (3,), (0, 1, 2, 3)]
TWO = [(0, 2), (1, 2, 3)]
GROUPS = {ranks: kf.Group(ranks) for ranks in RANKS}
for group in GROUPS.values():
    if group.included:
        kf.ops.barrier(group=group)  # behind it the core has no operations of its own
DTYPES = ["float16", "bfloat16", "float32", "float64", "uint8", "int32", "int64", "complex64"]


def members(ranks, values):
    """What the members have; None on others, which have nothing to do."""
    return [values[rank] for rank in ranks] if kf.rank() in ranks else None


@each(ranks=RANKS)
def case_who_is_in_it(ranks):
    group = GROUPS[tuple(ranks)]
    assert group.ranks == tuple(ranks) and group.size() == len(ranks)
    assert group.included == (kf.rank() in ranks)
    if group.included:
        assert group.rank() == ranks.index(kf.rank())
    else:
        assert f"rank {kf.rank()} is not in Group" in str(
            raised_by(errors.InvalidArgumentError, group.rank)
        )


@each(ranks=RANKS, dtype=DTYPES)
def case_all_reduce(ranks, dtype):
    x = members(ranks, arrays(dtype))
    if x is None:
        return
    group = GROUPS[tuple(ranks)]
    mine = x[group.rank()]
    for op in ("sum", "prod", "mean"):
        check(lambda t, op=op: kf.ops.all_reduce(t, op=op, group=group), mine, reduced(op, x))
    check(
        lambda t: kf.ops.group_all_reduce([t, t[:2]], group=group)[1], mine, reduced("sum", x)[:2]
    )


@each(ranks=RANKS, dtype=[*DTYPES, "bool"])
def case_moves(ranks, dtype):
    x = members(ranks, arrays(dtype))
    uneven = members(ranks, arrays(dtype, rows=[2, 0, 3, 1]))
    if x is None:
        return
    group = GROUPS[tuple(ranks)]
    me, last = group.rank(), len(ranks) - 1
    for root in range(len(ranks)):
        check(lambda t, r=root: kf.ops.broadcast(t, root=r, group=group), x[me], x[root])
    check(lambda t: kf.ops.all_gather(t, group=group), x[me], np.stack(x))
    gathered = np.concatenate(uneven)
    check(lambda t: kf.ops.all_gather(t, concat=True, group=group), uneven[me], gathered)
    of_root = np.stack(x) if me == last else np.zeros((0, *x[0].shape), x[0].dtype)
    check(lambda t: kf.ops.gather(t, root=last, group=group), x[me], of_root)
    parts = [np.array_split(value, len(ranks))[me] for value in x]
    check(lambda t: kf.ops.all_to_all(t, group=group), x[me], np.concatenate(parts))
    empty = np.zeros((7, 0), np.float32)
    rows = len(np.array_split(empty, len(ranks))[me]) * len(ranks)
    check(lambda t: kf.ops.all_to_all(t, group=group), empty, np.zeros((rows, 0), np.float32))


@each(ranks=RANKS, dtype=DTYPES)
def case_reduces(ranks, dtype):
    x = members(ranks, arrays(dtype))
    if x is None:
        return
    group = GROUPS[tuple(ranks)]
    me, total = group.rank(), reduced("sum", x)
    for root in range(len(ranks)):
        expected = total if me == root else np.zeros_like(total)
        check(lambda t, r=root: kf.ops.reduce(t, "sum", root=r, group=group), x[me], expected)
    mine = np.array_split(total, len(ranks))[me]
    check(lambda t: kf.ops.reduce_scatter(t, group=group), x[me], mine)


@each(ranks=RANKS)
def case_trees(ranks):
    """Each rank but the last with that before it, and the last alone: counted in the group."""
    x = members(ranks, arrays("float64"))
    if x is None:
        return
    group = GROUPS[tuple(ranks)]
    me, last = group.rank(), len(ranks) - 1
    parents = [max(rank - 1, 0) for rank in range(last)] + [last]
    mean = x[me] if me == last else np.mean(x[:last], axis=0)
    check(lambda t: kf.ops.subset_all_reduce(t, parents, op="mean", group=group), x[me], mean)
    tree = [max(rank - 1, 0) for rank in range(len(ranks))]
    total = reduced("sum", x)
    check(lambda t: kf.ops.monitored_all_reduce(t, tree=tree, group=group), x[me], total)
    check(lambda t: kf.ops.monitored_all_reduce(t, group=group), x[me], total)
    value = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = (me + 1.0) * kf.ops.subset_all_reduce(value, parents, group=group)
    expected = me + 1 if me == last else last * (last + 1) / 2
    np.testing.assert_allclose(tape.gradient(y, value), expected)


@each(ranks=RANKS)
def case_meetings(ranks):
    group = GROUPS[tuple(ranks)]
    if not group.included:
        return
    kf.ops.barrier(group=group)
    assert bool(kf.ops.consensus(tf.constant(ranks), group=group))
    assert bool(kf.ops.consensus(tf.constant(kf.rank()), group=group)) == (len(ranks) == 1)
    assert kf.broadcast_object({"rank": kf.rank()}, root=0, group=group) == {"rank": ranks[0]}
    assert kf.all_gather_object(kf.rank(), group=group) == list(ranks)
    variable = tf.Variable([float(kf.rank())])
    kf.initializer.broadcast_variables([variable], root=len(ranks) - 1, group=group)
    assert variable.numpy().tolist() == [ranks[-1]]


@each(ranks=RANKS)
def case_sparse_rows(ranks):
    group = GROUPS[tuple(ranks)]
    if not group.included:
        return
    rows = tf.IndexedSlices([[float(kf.rank())]], [kf.rank()], [4, 1])
    mean = tf.convert_to_tensor(kf.ops.all_reduce(rows, op="mean", group=group)).numpy()
    expected = [[rank / len(ranks) if rank in ranks else 0.0] for rank in range(4)]
    np.testing.assert_allclose(mean, expected)


def case_at_once_under_one_name():
    @tf.function
    def step(x):
        results = [kf.ops.all_reduce(x, name="same")]
        for group in GROUPS.values():
            if group.included:
                results.append(kf.ops.all_reduce(x, name="same", group=group))
        return results

    expected = [15.0] + [float(sum(1 << r for r in ranks)) for ranks in RANKS if kf.rank() in ranks]
    for _ in range(20):
        found = [float(value) for value in step(tf.constant(float(1 << kf.rank())))]
        assert found == expected


def case_default_names_match_where_only_members_have_the_operation():
    @tf.function
    def step(x):
        if GROUPS[0, 2].included:
            x = kf.ops.all_reduce(x, group=GROUPS[0, 2])
        return kf.ops.all_reduce(x)

    assert step(tf.constant(1.0)).numpy() == 6


@each(mode=["eager", "function"], ranks=RANKS)
def case_gradients(mode, ranks):
    """The loss is the sum over members of c · y: its gradient is the transpose's."""
    group = GROUPS[tuple(ranks)]
    if not group.included:
        return
    me, size = group.rank(), len(ranks)
    c = [np.random.default_rng(50 + r).integers(-4, 5, (4, 2)).astype(float) for r in range(size)]
    cases = {
        "all_reduce": (lambda x: kf.ops.all_reduce(x, op="mean", group=group), sum(c) / size),
        "broadcast": (
            lambda x: kf.ops.broadcast(x, root=0, group=group),
            sum(c) if me == 0 else 0 * c[0],
        ),
        "reduce": (lambda x: kf.ops.reduce(x, "sum", root=size - 1, group=group), c[-1]),
        "all_gather": (lambda x: kf.ops.all_gather(x, group=group)[0], sum(c) * (me == 0)),
    }
    for name, (function, expected) in cases.items():

        def run(x, function=function):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(function(x) * c[me])
            return tape.gradient(loss, x)

        result = (tf.function(run) if mode == "function" else run)(tf.ones((4, 2), tf.float64))
        np.testing.assert_allclose(result.numpy(), expected, err_msg=name)


def case_a_stranger_is_refused_before_anything_is_sent():
    group = GROUPS[0, 2]
    if not group.included:
        error = raised_by(errors.InvalidArgumentError, lambda: kf.ops.all_reduce(1.0, group=group))
        assert f"rank {kf.rank()} is not in Group([0, 2])" in str(error)
    else:
        assert kf.ops.all_reduce(1.0, group=group).numpy() == 2


def case_peers_that_make_different_groups():
    error = raised_by(errors.InvalidArgumentError, lambda: kf.Group([0, 1 + kf.rank() // 3]))
    assert "ranks 0, 1 at rank 0" in str(error) and "ranks 0, 2 at rank 3" in str(error)
    for wrong in ([], [4], [1, 1]):
        raised_by(errors.InvalidArgumentError, lambda wrong=wrong: kf.Group(wrong))
    assert kf.Group([1]).size() == 1


def case_members_that_differ():
    group = GROUPS[0, 2]
    if group.included:
        shape = [2 + kf.rank()]
        error = raised_by(
            tf.errors.InvalidArgumentError,
            lambda: kf.ops.all_reduce(tf.zeros(shape), name="x", group=group),
        )
        assert "all_reduce 'x' among ranks 0, 2 differs" in str(error)
        assert kf.ops.all_reduce(1.0, name="x", group=group).numpy() == 2


def case_closed():
    group = kf.Group([0, 1, 2, 3])
    assert kf.ops.all_reduce(1.0, group=group).numpy() == 4
    kf.barrier()
    group.close()
    assert "closed" in str(
        raised_by(errors.AbortedError, lambda: kf.ops.all_reduce(1.0, group=group))
    )


@each(ranks=TWO)
def case_training_is_that_of_one_process_on_the_members_samples(ranks):
    """Two disjoint or overlapping groups train models of their own."""
    group = GROUPS[tuple(ranks)]
    if not group.included:
        return
    x = np.random.default_rng(3).normal(size=(len(ranks), 8, 3))
    y = x.sum(axis=2, keepdims=True) ** 2

    def train(batches, distributed):
        w = tf.Variable(np.full((3, 1), 0.1))
        plain = tf.keras.optimizers.SGD(0.05)
        optimizer = plain
        if distributed == "optimizer":
            optimizer = kf.optimizers.SynchronousSGDOptimizer(plain, group=group)
        for _ in range(5):
            tape = tf.GradientTape()
            if distributed == "tape":
                tape = kf.DistributedGradientTape(tape, group=group)
            with tape:
                loss = tf.reduce_mean((batches[0] @ w - batches[1]) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return w.numpy()

    expected = train((x.reshape(-1, 3), y.reshape(-1, 1)), "")
    me = group.rank()
    for distributed in ("optimizer", "tape"):
        np.testing.assert_allclose(train((x[me], y[me]), distributed), expected, rtol=1e-12)


def case_the_whole_is_as_before():
    assert kf.ops.all_reduce(1.0).numpy() == 4
    assert (kf.ops.rank().numpy(), kf.ops.cluster_size().numpy()) == (kf.rank(), 4)
