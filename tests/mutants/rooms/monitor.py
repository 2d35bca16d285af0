"""Faults in kungfu_tf/monitor/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="one-vote-is-most",
        file="kungfu_tf/monitor/statistics.py",
        text="return bool(2 * votes > peers)",
        fault="return votes > 0",
        why="One slow peer changes the strategy of all.",
        test="tests/python/cluster/cases/monitor/cases_monitoring.py::np3",
    ),
    Mutant(
        name="all-ways-are-one",
        file="kungfu_tf/monitor/endpoint.py",
        text='value = getattr(flow, f"{direction}_{field}")',
        fault='value = getattr(one, f"{direction}_{field}")',
        why="Prometheus shows the traffic of shared memory as that of sockets, too.",
        test="tests/python/cluster/cases/monitor/cases_monitor_callback.py::np2::prometheus",
    ),
    Mutant(
        name="any-token-opens",
        file="kungfu_tf/monitor/endpoint.py",
        text="if self._token and not hmac.compare_digest(given, wanted):",
        fault="if self._token and not given:",
        why="Any token opens the metrics.",
        test="tests/python/cluster/cases/monitor/cases_monitor_callback.py::np2::prometheus",
    ),
]
