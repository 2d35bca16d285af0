"""What the peers measure of the network between them."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os

import numpy as np
import support
import tensorflow as tf
from harness import each

import kungfu_tf as kf
from kungfu_tf.monitor import measurements
from kungfu_tf.monitor import statistics as monitoring
from kungfu_tf.native import libraries

JOBS = [
    {"np": 3},
    {"np": 3, "env": {"KUNGFU_TRANSPORT": "tcp"}, "id": "tcp", "cases": ["traffic_of_steps"]},
]
NEEDS_KERAS = False
MEGABYTE = 1 << 20
STEPS = 8
IS_TCP = os.environ.get("KUNGFU_TRANSPORT") == "tcp"

v1 = tf.compat.v1


def in_each_mode(function):
    """What it returns, eagerly, in a function and in a TF1 graph."""
    yield np.asarray(function())
    yield np.asarray(tf.function(function)())
    with tf.Graph().as_default(), v1.Session() as session:
        yield session.run(function())


def case_traffic():
    before = measurements.traffic()
    total = kf.ops.all_reduce(tf.fill([MEGABYTE], 1.0), name="traffic")
    assert total[0] == kf.size()
    after = measurements.traffic()
    for rank in range(kf.size()):
        sent = after[rank].egress_bytes - before[rank].egress_bytes
        received = after[rank].ingress_bytes - before[rank].ingress_bytes
        is_other = rank != kf.rank()
        assert (sent > MEGABYTE) == is_other and (received > MEGABYTE) == is_other, (rank, sent)
        assert (after[rank].egress_rate > 0) == is_other, after
    for one in after:
        flows = one.by_way.values()
        assert one[:4] == tuple(map(sum, zip(*flows, strict=True))), one
    kf.barrier()


def bytes_by_way():
    """By way, in `WAYS`' order: those that this peer has sent, and received."""
    flows = [one.by_way.values() for one in measurements.traffic()]
    return np.array([[flow[:2] for flow in one] for one in flows], np.int64).sum(axis=0)


def case_traffic_of_steps():
    """The peers count what an all-reduce must move, but for headers and notices under way."""
    kf.barrier()
    before, reduced_directly = bytes_by_way(), libraries.statistics()["direct"]
    for _ in range(STEPS):
        kf.ops.all_reduce(tf.zeros([MEGABYTE], tf.uint8), name="step")
    kf.barrier()
    moved = bytes_by_way() - before
    reduced_directly = libraries.statistics()["direct"] - reduced_directly
    assert reduced_directly == (0 if IS_TCP else STEPS), reduced_directly
    by_way = np.asarray(kf.ops.all_reduce(moved, name="moved"))
    egress, ingress = by_way.sum(axis=0)
    needed = 2 * (kf.size() - 1) * STEPS * MEGABYTE
    assert needed <= egress < 1.05 * needed, by_way
    assert abs(egress - ingress) < 0.01 * needed, by_way
    other_ways = np.delete(by_way, measurements.WAYS.index("tcp" if IS_TCP else "shared_memory"), 0)
    assert not other_ways.any(), by_way


@each(way=["egress", "ingress"])
def case_rates(way):
    function = kf.ops.egress_rates if way == "egress" else kf.ops.ingress_rates

    def rates_after_traffic():
        reduced = kf.ops.all_reduce(tf.fill([MEGABYTE], 1.0), name="rates")
        with tf.control_dependencies([reduced]):  # they may be those of a moment only
            return function()

    for rates in in_each_mode(rates_after_traffic):
        assert rates.dtype == np.float32 and rates.shape == (kf.size(),)
        np.testing.assert_array_equal(rates > 0, np.arange(kf.size()) != kf.rank())
    kf.barrier()


def case_latencies():
    """Measured by one peer, then by all at once."""
    measure = functools.partial(kf.ops.get_peer_latencies, timeout=80.0)
    for is_measuring in (kf.is_root(), True):
        for latencies in in_each_mode(measure) if is_measuring else ():
            assert latencies.dtype == np.float32 and latencies.shape == (kf.size(),)
            assert latencies[kf.rank()] == 0
            others = np.delete(latencies, kf.rank())
            assert np.all((others > 0) & np.isfinite(others)), latencies
        kf.barrier()


def case_tree_of_latencies():
    def plan():
        edges = kf.ops.global_minimum_spanning_tree(kf.ops.get_peer_latencies())
        return edges, kf.ops.get_neighbour_mask(edges)

    edges, mask = tf.function(plan)()
    assert kf.ops.consensus(edges)
    children = {int(child) for _, child in edges}
    assert children == set(range(1, kf.size()))
    neighbours = {int(x) for edge in edges for x in edge if kf.rank() in edge} - {kf.rank()}
    np.testing.assert_array_equal(np.flatnonzero(mask), sorted(neighbours))
    masks = kf.ops.all_gather(mask).numpy()
    np.testing.assert_array_equal(masks, masks.T)


def case_monitored_all_reduce():
    def function(x):
        return kf.ops.monitored_all_reduce(x, op="mean")

    arrays = support.arrays("float32")
    before = measurements.throughputs()
    support.check(function, arrays[kf.rank()], support.reduced("mean", arrays))
    [after] = measurements.throughputs().values()
    assert measurements.strategy() in measurements.throughputs()
    moved = after.bytes - sum(one.bytes for one in before.values())
    assert moved == 3 * arrays[0].nbytes and after.seconds > 0
    kf.ops.all_reduce(arrays[0])
    assert measurements.throughputs()[measurements.strategy()].bytes == after.bytes


def case_statistics():
    kf.ops.monitored_all_reduce(tf.fill([MEGABYTE], 1.0))
    throughput = kf.calc_stats()
    assert throughput > 0
    assert kf.calc_stats() == throughput
    for again in in_each_mode(kf.ops.calc_stats):
        np.testing.assert_allclose(again, throughput, rtol=1e-6)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        kf.print_strategy_stats()
    assert f"rank {kf.rank()}: strategy {measurements.strategy()}: " in printed.getvalue()
    with_log = io.StringIO()
    handler = logging.StreamHandler(with_log)
    monitoring._log.addHandler(handler)
    monitoring._log.setLevel(logging.INFO)
    kf.log_stats()
    monitoring._log.removeHandler(handler)
    assert with_log.getvalue() == printed.getvalue()


def case_without_a_window_there_are_no_rates():
    seen = {"RING": measurements.Throughput(2_000_000, 0.5, 0.0, 0.0)}
    original, measurements.throughputs = measurements.throughputs, lambda: seen
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            kf.print_strategy_stats()
    finally:
        measurements.throughputs = original
    assert printed.getvalue() == f"rank {kf.rank()}: strategy RING: 2.0 MB in 0.500 s\n"


@each(slow=[0, 1, 2, 3])
def case_interference_is_what_most_see(slow):
    """The first `slow` peers have seen better times."""
    newest = 70.0 if kf.rank() < slow else 90.0
    seen = {measurements.strategy(): measurements.Throughput(1000, 1.0, newest, 100.0)}
    original, measurements.throughputs = measurements.throughputs, lambda: seen
    try:
        assert kf.check_interference() == (slow >= 2)
        assert not kf.check_interference(threshold=0.5)
    finally:
        measurements.throughputs = original


def case_without_measurements_there_is_no_interference():
    original, measurements.throughputs = measurements.throughputs, dict
    try:
        assert not kf.check_interference()
    finally:
        measurements.throughputs = original
    message = support.raised_by(ValueError, lambda: kf.check_interference(threshold=1))
    assert "between 0 and 1" in message


def case_latency_histogram():
    before = measurements.latencies()
    for _ in range(5):
        kf.ops.all_reduce(np.zeros(10, np.float32))
    kf.ops.barrier()
    after = measurements.latencies()
    assert sum(after.counts.values()) - sum(before.counts.values()) == 6
    assert after.bytes - before.bytes == 5 * 40 and after.seconds > before.seconds
    assert list(after.counts) == sorted(after.counts)
