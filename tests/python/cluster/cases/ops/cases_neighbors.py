"""Weighted averages of neighbours, against the matrices of their topologies in NumPy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each
from support import check, numpy_dtype, operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf import topology

JOBS = [
    {"np": 3},
    {"np": 2, "cases": ["base_graphs_make_the_exact_mean"]},
    {
        "np": 4,
        "cases": [
            "base_graphs_make_the_exact_mean",
            "partners_change_from_step_to_step",
            "topologies",
        ],
    },
    {"np": 5, "cases": ["base_graphs_make_the_exact_mean"]},
]
NEEDS_KERAS = False

InvalidArgument = tf.errors.InvalidArgumentError
TOPOLOGIES = {
    "ring": topology.ring(),
    "directed": topology.ring(directed=True),
    "star": topology.star(center=1),
    "exp2": topology.exponential(),
    "one-peer": topology.one_peer_exponential(),
    "base-2": topology.base_graph(),
    "base-3": topology.base_graph(degree=2),
    "matching": topology.random_matching(seed=3),
}
NAMES = ["ring", "directed", "star", "exp2", "one-peer", "base-2", "base-3", "matching"]


def values(dtype="float64", shape=(3, 5)):
    """What each peer has, as all peers know it: [rank, ...]."""
    random = np.random.default_rng(11)
    parts = [random.normal(size=(kf.size(), *shape)) for _ in range(2)]
    is_complex = dtype.startswith("complex")
    return (parts[0] + 1j * parts[1] if is_complex else parts[0]).astype(numpy_dtype(dtype))


def mixed(matrix, everybody, rank=None):
    """What a rank holds after a step with this matrix, added in the order that is promised."""
    rank = kf.rank() if rank is None else rank
    total = matrix[rank, rank] * everybody[rank]
    for source in range(kf.size()):
        if source != rank and matrix[rank, source]:
            total = total + matrix[rank, source] * everybody[source]
    return total


@each(name=NAMES)
def case_topologies(name):
    graph, x = TOPOLOGIES[name], values()
    for step in range(2 * graph.length(kf.size())):
        before = operations_done()
        y = kf.ops.neighbor_all_reduce(x[kf.rank()], topology=graph, step=step)
        assert operations_done() == before + 1
        x = np.stack([mixed(graph.at(step, kf.size()), x, rank) for rank in range(kf.size())])
        np.testing.assert_array_equal(y, x[kf.rank()])


def case_base_graphs_make_the_exact_mean():
    x = values()
    mine = tf.constant(x[kf.rank()])
    for step in range(topology.base_graph().exact_steps(kf.size())):
        mine = kf.ops.neighbor_all_reduce(mine, step=step)
    error = np.abs(mine - x.mean(axis=0)).max()
    assert error <= 1e-15, error


def case_partners_change_from_step_to_step():
    """One trace for all steps, of which the third begins the cycle anew."""
    graph = topology.one_peer_exponential()
    traces = []

    @tf.function
    def step(x, number):
        traces.append(number)
        return kf.ops.neighbor_all_reduce(x, topology=graph, step=number)

    x = values()
    mine, number = tf.constant(x[kf.rank()]), tf.Variable(0)
    expected = x
    for turn in range(3):
        mine = step(mine, number)
        number.assign_add(1)
        expected = graph.at(turn, kf.size()) @ expected.reshape(kf.size(), -1)
        np.testing.assert_allclose(np.ravel(mine), expected[kf.rank()], rtol=0, atol=1e-15)
    assert len(traces) == 1


@each(dtype=["float16", "bfloat16", "float32", "complex64", "complex128"])
def case_dtypes(dtype):
    """16-bit types are added in float32, and rounded once."""
    x = values(dtype)
    wide = {"float16": np.float32, "bfloat16": np.float32}.get(dtype, x.dtype)
    weight = np.float32(1 / 3) if wide in (np.float32, np.complex64) else 1 / 3
    ring = topology.ring()
    order = [kf.rank(), *(rank for rank in range(3) if rank != kf.rank())]
    first, *others = (weight * x[rank].astype(wide) for rank in order)
    expected = (first + others[0] + others[1]).astype(x.dtype)

    def function(t):
        return kf.ops.neighbor_all_reduce(t, topology=ring, name=dtype)

    check(function, x[kf.rank()], expected)


def case_given_weights_in_all_their_forms():
    x = values()
    before, behind = (kf.rank() - 1) % 3, (kf.rank() + 1) % 3
    expected = 0.25 * x[kf.rank()] + 0.1 * x[before]

    def expect(expected, **weights):
        y = kf.ops.neighbor_all_reduce(x[kf.rank()], self_weight=0.25, **weights)
        np.testing.assert_array_equal(y, expected)

    expect(expected, src_weights={before: 0.1}, dst_weights=[behind])
    expect(expected, src_weights=([before], [0.1]), dst_weights=np.array([behind]))
    tensors = (tf.constant([before]), [tf.constant(0.1, tf.float64)])
    expect(expected, src_weights=tensors, dst_weights=tf.constant([behind]))
    expect(
        0.25 * x[kf.rank()] + 0.5 * (4.0 * x[before]),
        src_weights={before: 0.5},
        dst_weights={behind: 4.0},
    )
    low, high = sorted([before, behind])
    both = 0.25 * x[kf.rank()] + 0.5 * x[low] + 0.5 * x[high]
    expect(both, src_weights={high: 0.5, low: 0.5})
    expect(0.25 * x[kf.rank()], src_weights={})


def case_many_tensors_at_once():
    x, half = values(), values("float16", (4,))
    variable = tf.Variable(x[kf.rank()])
    before = operations_done()
    results = kf.ops.group_neighbor_all_reduce(
        [variable, None, half[kf.rank()], 2 * x[kf.rank()], tf.zeros([0, 3])],
        topology=topology.exponential(),
    )
    assert operations_done() == before + 3  # one for each dtype
    matrix = topology.exponential().at(0, 3)
    np.testing.assert_array_equal(results[0], mixed(matrix, x))
    assert results[1] is None
    assert results[2].dtype == tf.float16
    np.testing.assert_array_equal(results[3], mixed(matrix, 2 * x))
    assert results[4].shape == [0, 3]
    assert kf.ops.group_neighbor_all_reduce([None]) == [None]


@each(concat=[True, False])
def case_gathered(concat):
    ring = topology.ring(directed=True)
    before = (kf.rank() - 1) % 3
    lengths = [2, 0, 3] if concat else [2, 2, 2]
    mine = np.full((lengths[kf.rank()], 4), kf.rank(), np.int32)
    theirs = np.full((lengths[before], 4), before, np.int32)

    def function(t):
        return kf.ops.neighbor_all_gather(t, topology=ring, concat=concat, name=f"g{concat}")

    check(function, mine, theirs if concat else theirs[None])


def case_gathered_from_given_ranks():
    """Rank 0 gets all, the others nothing."""
    sources, targets = ([1, 2], []) if kf.rank() == 0 else ([], [0])
    y = kf.ops.neighbor_all_gather(float(kf.rank()), sources=sources, targets=targets)
    np.testing.assert_array_equal(y, [1.0, 2.0] if kf.rank() == 0 else [])


def case_pairs():
    x = values()
    partner = [1, 0, 2][kf.rank()]
    y = kf.ops.pair_gossip(x[kf.rank()], partner)
    np.testing.assert_array_equal(y, 0.5 * x[kf.rank()] + 0.5 * x[partner])
    y = kf.ops.pair_gossip(x[kf.rank()], tf.constant(partner), self_weight=0.25, pair_weight=3.0)
    alone = kf.rank() == 2
    np.testing.assert_array_equal(y, x[2] if alone else 0.25 * x[kf.rank()] + 3.0 * x[partner])


def case_among_a_group():
    group = kf.Group([0, 2])
    if group.included:
        x = values()
        y = kf.ops.neighbor_all_reduce(x[kf.rank()], group=group, name="some")
        np.testing.assert_array_equal(y, 0.5 * x[kf.rank()] + 0.5 * x[2 - kf.rank()])
    group.close()


@each(mode=["eager", "function"])
def case_gradients_are_the_transpose(mode):
    """The loss is the sum over peers r of <c_r, y_r>."""
    c, graph = values(), topology.exponential()
    before, behind = (kf.rank() - 1) % 3, (kf.rank() + 1) % 3
    weights = {
        "self_weight": 0.25,
        "src_weights": {before: 0.1 + before},
        "dst_weights": {behind: 3.0},
    }

    def gradient(function):
        def run(t):
            with tf.GradientTape() as tape:
                tape.watch(t)
                loss = tf.reduce_sum(c[kf.rank()] * function(t))
            return tape.gradient(loss, t)

        done = operations_done()
        result = (tf.function(run) if mode == "function" else run)(tf.ones([3, 5], tf.float64))
        assert operations_done() == done + 2
        return result.numpy()

    found = gradient(lambda t: kf.ops.neighbor_all_reduce(t, topology=graph, name="there"))
    np.testing.assert_allclose(found, mixed(graph.at(0, 3).T, c), rtol=1e-14)
    found = gradient(lambda t: kf.ops.neighbor_all_reduce(t, name="given", **weights))
    expected = 0.25 * c[kf.rank()] + 3.0 * (0.1 + kf.rank()) * c[behind]
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    found = gradient(
        lambda t: tf.reduce_sum(
            kf.ops.neighbor_all_gather(t, topology=topology.ring(directed=True), name="rows"), 0
        )
    )
    np.testing.assert_array_equal(found, c[behind])


def case_gradients_of_rows_from_ranks_in_any_order():
    """The loss is the sum over peers r, and over the rows that r gets, of (1 + r) times the row."""
    lengths = [1, 0, 3]
    sources, targets = [([1], [1]), ([2, 0], [2, 0]), ([1], [1])][kf.rank()]
    x = tf.ones([lengths[kf.rank()], 2], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        rows = kf.ops.neighbor_all_gather(
            x, sources=sources, targets=targets, concat=True, name="any order"
        )
        factors = np.repeat(
            [10.0 * rank for rank in sorted(sources)], [lengths[r] for r in sorted(sources)]
        )
        loss = tf.reduce_sum((1 + kf.rank() + factors)[:, None] * rows)
    expected = sum(1 + target + 10.0 * kf.rank() for target in targets)
    np.testing.assert_array_equal(tape.gradient(loss, x), np.full(x.shape, expected))


def case_topologies_that_differ():
    """All hear of it, each with its own topology; then they are in step again."""
    mine = topology.star() if kf.rank() == 1 else topology.fully_connected()
    text = raised_by(
        InvalidArgument, lambda: kf.ops.neighbor_all_reduce([1.0], topology=mine, name="differ")
    )
    assert "neighbor_all_reduce 'differ' differs between rank" in text, text
    assert "and rank" in text
    assert "the topology or its step" in text
    assert f"(here: float [1], {mine!r})" in text, text
    two_steps = topology.from_matrix([np.full((3, 3), 1 / 3), np.eye(3) / 4 + 1 / 4])
    step = 1 if kf.rank() == 1 else 0
    other = raised_by(
        InvalidArgument,
        lambda: kf.ops.neighbor_all_reduce([1.0], topology=two_steps, step=step, name="steps"),
    )
    assert "the topology or its step" in other
    kf.ops.neighbor_all_reduce([1.0], topology=topology.ring(), name="differ")


def case_what_is_refused():
    invalid, unsupported = kf.errors.InvalidArgumentError, kf.errors.UnsupportedTypeError
    reduce = kf.ops.neighbor_all_reduce
    text = raised_by(
        invalid, lambda: reduce(1.0, topology=topology.ring(), self_weight=1.0, src_weights={})
    )
    assert "weights come from a topology, or are given" in text
    assert "must be given" in raised_by(invalid, lambda: reduce(1.0, src_weights={1: 0.5}))
    assert "weighted sum is not defined" in raised_by(unsupported, lambda: reduce([1, 2]))
    text = raised_by(InvalidArgument, lambda: reduce(1.0, self_weight=1.0, src_weights={7: 1.0}))
    assert "source 7 is not a rank of 3 peers" in text
    twice = ([(kf.rank() + 1) % 3] * 2, [0.5, 0.5])
    text = raised_by(InvalidArgument, lambda: reduce(1.0, self_weight=1.0, src_weights=twice))
    assert "is there twice" in text
    one_size = topology.from_matrix(np.eye(2))
    for error, mode in ((invalid, lambda f: f), (InvalidArgument, tf.function)):
        text = raised_by(error, mode(lambda: reduce(1.0, topology=one_size)))
        assert "is for 2 peers, and there are 3" in text
