"""Faults in ops/monitor/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="window-is-not-forgotten",
        file="ops/monitor/throughput_meter.cc",
        text="    entry.window = {};",
        fault="",
        why="Each window of the throughput has those before it.",
        test="monitor_test ThroughputMeter.",
    ),
    Mutant(
        name="rate-since-ever",
        file="ops/monitor/rate_meter.cc",
        text="totals[i] - base.totals[i]) / seconds",
        fault="totals[i]) / seconds",
        why="The rate of a second is that of the whole training.",
        test="monitor_test RateMeter.",
    ),
    Mutant(
        name="bounds-belong-to-the-next-bucket",
        file="ops/monitor/latency_histogram.cc",
        text="(nanoseconds - 1) / 1000",
        fault="nanoseconds / 1000",
        why="Prometheus' buckets hold less than they say.",
        test="monitor_test LatencyHistogram.",
    ),
]
