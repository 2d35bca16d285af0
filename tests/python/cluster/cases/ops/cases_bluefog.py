"""BlueFog's operations in kungfu_tf, against what BlueFog says of them in NumPy."""

from __future__ import annotations

import networkx as nx
import numpy as np
import tensorflow as tf
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import compat

compat.install("bluefog")
import bluefog.tensorflow as bf  # noqa: E402

JOBS = [{"np": 3}]
NEEDS_KERAS = False

# Rank 0 sends to both others, rank 1 to rank 2, that to rank 0: an edge from row to column.
EDGES = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])


def values(shape=(2, 3)):
    """What each process has, as all know it: [rank, ...]."""
    return np.random.default_rng(9).normal(size=(3, *shape))


def graph():
    return nx.from_numpy_array(EDGES, create_using=nx.DiGraph)


def use_graph(is_weighted=False):
    bf.init()  # with another graph: of the same one, BlueFog keeps whether its weights count
    bf.set_topology(graph(), is_weighted=is_weighted)


def sources():
    return [rank for rank in range(3) if EDGES[rank, kf.rank()] and rank != kf.rank()]


def targets():
    return [rank for rank in range(3) if EDGES[kf.rank(), rank] and rank != kf.rank()]


def uniform(x):
    """The mean of its own and its sources', added in that order."""
    return weighted(x, 1 / (len(sources()) + 1), dict.fromkeys(sources(), 1 / (len(sources()) + 1)))


def weighted(x, own, others):
    total = own * x[kf.rank()]
    for rank, weight in sorted(others.items()):
        total = total + weight * x[rank]
    return total


def case_topologies():
    bf.init()
    assert (bf.rank(), bf.size(), bf.local_rank()) == (kf.rank(), 3, kf.local_rank())
    others = [rank for rank in range(3) if rank != bf.rank()]
    assert sorted(bf.in_neighbor_ranks()) == sorted(bf.out_neighbor_ranks()) == others
    bf.init(lambda size: bf.RingGraph(size, connect_style=2))
    assert bf.in_neighbor_ranks() == [(bf.rank() - 1) % 3]
    assert bf.set_topology(graph(), is_weighted=True)
    assert bf.in_neighbor_ranks() == sources() and bf.out_neighbor_ranks() == targets()
    assert bf.is_topo_weighted() and bf.IsTopologyEquivalent(bf.load_topology(), graph())
    raised_by(TypeError, bf.set_topology, bf.RingGraph(4))
    raised_by(TypeError, bf.set_topology, nx.path_graph(3))
    raised_by(ValueError, bf.set_machine_topology, None)
    raised_by(RuntimeError, bf.hierarchical_neighbor_allreduce, 1.0)
    assert bf.is_homogeneous() and (bf.machine_size(), bf.machine_rank()) == (1, 0)


def case_neighbors_mix():
    x = values()
    use_graph()
    np.testing.assert_array_equal(bf.neighbor_allreduce(x[bf.rank()]), uniform(x))
    use_graph(is_weighted=True)
    own = EDGES[bf.rank(), bf.rank()]
    of_sources = {rank: EDGES[rank, bf.rank()] for rank in sources()}
    np.testing.assert_array_equal(bf.neighbor_allreduce(x[bf.rank()]), weighted(x, own, of_sources))
    # All send, also to those that do not count them.
    got = bf.neighbor_allreduce(x[bf.rank()], self_weight=0.5, src_weights={})
    np.testing.assert_array_equal(got, 0.5 * x[bf.rank()])
    before, behind = (bf.rank() - 1) % 3, (bf.rank() + 1) % 3
    got = bf.neighbor_allreduce(
        x[bf.rank()], self_weight=0.25, src_weights={before: 0.5}, dst_weights={behind: 4.0}
    )
    np.testing.assert_array_equal(got, 0.25 * x[bf.rank()] + 0.5 * (4.0 * x[before]))
    for wrong in (
        {"self_weight": 0.5},
        {"src_weights": {0: 1.0}},
        {"dst_weights": [0]},
        {"self_weight": 0.5, "src_weights": {bf.rank(): 1.0}},
        {"self_weight": 0.5, "src_weights": {}, "dst_weights": [0, 0]},
    ):
        raised_by(ValueError, lambda wrong=wrong: bf.neighbor_allreduce(1.0, **wrong))
    partner = [1, 0, 2][bf.rank()]
    pair = bf.pair_gossip(x[bf.rank()], partner)
    np.testing.assert_array_equal(pair, (x[bf.rank()] + x[partner]) / 2)


def case_neighbors_gather_rows():
    x = [np.full([rank + 1, 2], float(rank)) for rank in range(3)]
    use_graph()
    np.testing.assert_array_equal(
        bf.neighbor_allgather(x[bf.rank()]), np.concatenate([x[rank] for rank in sources()])
    )
    high_first = sorted({0, 1, 2} - {bf.rank()}, reverse=True)
    got = bf.neighbor_allgather(x[bf.rank()], src_ranks=high_first, dst_ranks=high_first)
    np.testing.assert_array_equal(got, np.concatenate([x[rank] for rank in high_first]))
    raised_by(ValueError, lambda: bf.neighbor_allgather(x[0], src_ranks=[0]))


def case_who_sends_to_whom():
    assert bf.InferSourceFromDestinationRanks(targets()) == sources()
    assert bf.InferDestinationFromSourceRanks(sources()) == targets()
    links = (EDGES != 0).astype(float)
    for infer, mine in (
        (bf.InferSourceFromDestinationRanks, targets()),
        (bf.InferDestinationFromSourceRanks, sources()),
    ):
        _, matrix = infer(mine, construct_adjacency_matrix=True)
        np.testing.assert_array_equal(matrix, links / links.sum(axis=0))
    raised_by(AssertionError, bf.InferSourceFromDestinationRanks, [bf.rank()])


def case_all_processes():
    """Gradients are sums over the processes."""
    x = values()
    mine = tf.Variable(x[bf.rank()])
    with tf.GradientTape(persistent=True) as tape:
        mean, rows = bf.allreduce(mine), bf.allgather(mine)
        of_1 = bf.broadcast(mine, 1)
    np.testing.assert_allclose(mean, x.mean(axis=0), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(rows, np.concatenate(x))
    np.testing.assert_array_equal(of_1, x[1])
    np.testing.assert_allclose(tape.gradient(mean, mine), np.ones([2, 3]), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(tape.gradient(rows, mine), np.full([2, 3], 3.0))
    of_root = 3.0 if bf.rank() == 1 else 0.0
    np.testing.assert_array_equal(tape.gradient(of_1, mine), np.full([2, 3], of_root))
    np.testing.assert_array_equal(bf.allreduce([bf.rank(), 1], average=False), [3, 3])
    raised_by(ValueError, bf.allreduce, tf.IndexedSlices(mine, [0, 1]))
    bf.broadcast_variables([mine], root_rank=2)
    np.testing.assert_array_equal(mine, x[2])


def case_windows():
    x = values()
    use_graph()
    variable = tf.Variable(x[bf.rank()])
    assert bf.win_create(variable, "w")
    assert bf.get_current_created_window_names() == ["w"]
    assert not bf.set_topology(bf.RingGraph(3))  # not with windows
    np.testing.assert_allclose(bf.win_update("w"), x[bf.rank()], rtol=0, atol=1e-15)
    bf.barrier()
    variable.assign(x[bf.rank()])
    assert bf.win_put(variable, "w", self_weight=0.5)
    np.testing.assert_array_equal(variable, 0.5 * x[bf.rank()])
    variable.assign(x[bf.rank()])
    assert bf.win_put(variable, "w")
    bf.barrier()
    assert bf.get_win_version("w") == dict.fromkeys(sources(), 2)
    got = bf.win_update("w", clone=True)
    np.testing.assert_array_equal(got, uniform(x))
    np.testing.assert_array_equal(variable, x[bf.rank()])
    assert bf.get_win_version("w") == dict.fromkeys(sources(), 0)
    got = bf.win_update("w", 0.5, dict.fromkeys(sources(), 0.25))
    np.testing.assert_array_equal(got, weighted(x, 0.5, dict.fromkeys(sources(), 0.25)))
    np.testing.assert_array_equal(variable, got)
    bf.barrier()
    assert bf.win_get("w", dict.fromkeys(sources(), 2.0))
    bf.barrier()
    mine = [weighted_of(x, rank) for rank in range(3)]
    expected = weighted(mine, 1.0, dict.fromkeys(sources(), 2.0))
    np.testing.assert_array_equal(bf.win_update_then_collect("w"), expected)
    with bf.win_mutex("w"), bf.win_lock("w"):
        assert bf.win_free("w")
    raised_by(ValueError, bf.win_update, "w")
    raised_by(ValueError, lambda: bf.win_mutex("w").__enter__())


def weighted_of(x, rank):
    """What `win_update` with these weights has made on another rank."""
    total = 0.5 * x[rank]
    for source in range(3):
        if EDGES[source, rank] and source != rank:
            total = total + 0.25 * x[source]
    return total


def case_push_sum():
    """The program of BlueFog's documentation: what each keeps and sends adds up to 1."""
    x = values()
    use_graph()
    bf.turn_on_win_ops_with_associated_p()
    assert bf.win_create(x[bf.rank()], "p", zero_init=True)
    share = 1 / (len(targets()) + 1)
    mine = tf.constant(x[bf.rank()])
    for _ in range(60):
        bf.win_accumulate(mine, "p", self_weight=share, dst_weights=dict.fromkeys(targets(), share))
        bf.barrier()
        mine = bf.win_update_then_collect("p")
        bf.barrier()
    p = bf.win_associated_p("p")
    np.testing.assert_allclose(mine / p, x.mean(axis=0), rtol=0, atol=1e-12)
    np.testing.assert_allclose(p, [1, 2 / 3, 4 / 3][bf.rank()], rtol=0, atol=1e-12)
    bf.turn_off_win_ops_with_associated_p()
    assert bf.win_associated_p("p") == 1
    bf.win_free()
    assert bf.get_current_created_window_names() == []


def case_gradients_are_means():
    variable = tf.Variable([float(bf.rank()), 1.0])
    with bf.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_sum(variable) * (bf.rank() + 1.0)
    np.testing.assert_array_equal(tape.gradient(loss, [variable])[0], [2.0, 2.0])
    raised_by(ValueError, bf.DistributedOptimizer, object())
