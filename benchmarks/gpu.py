"""Averages of tensors on a GPU, and a `fit` on it beside the same on the CPU.

Writes `results/gpu.md`. The peers share one GPU. Ends with code 1 where a `fit` is another one.

    TF_FORCE_GPU_ALLOW_GROWTH=true python benchmarks/gpu.py [--rounds 3] [--results DIR]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import report
from measure import Figures
from systems import PROGRAMS, ROOT

PEERS = 2
SIZES = [str(size) for size in (4, 64 << 10, 1 << 20, 16 << 20, 100 << 20)]
MODELS = ["dense, SGD with momentum", "convolutions, Adam", "embedding, Adam", "LSTM, RMSprop"]
MEANS = {
    "copy to the host and back, 1 process": (1, "GPU", ["copy", *SIZES]),
    f"average, {PEERS} peers, on the GPU": (PEERS, "GPU", SIZES),
    f"average, {PEERS} peers, on the CPU": (PEERS, "CPU", SIZES),
}
TOLERANCE = 1e-4  # of float32 sums in another order, after 120 steps, beside the largest weight


class Fit(NamedTuple):
    """What one training came to."""

    seconds: float  # of a step
    weights: list[np.ndarray]  # of each peer


def run(peers: int, program: str, *arguments: str) -> tuple[list[str], list[np.ndarray]]:
    """The lines of the first peer's report, and what each peer saved."""
    launcher = [sys.executable, "-m", "kungfu_tf.launcher", "-q", "-np", str(peers)]
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    environ["PYTHONPATH"] = f"{ROOT}:{environ.get('PYTHONPATH', '')}"
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report"
        command = [*launcher, sys.executable, str(PROGRAMS / program), str(report), *arguments]
        print(peers, program, *arguments, file=sys.stderr)
        subprocess.run(command, env=environ, check=True, timeout=120, stdout=sys.stderr)
        saved = [np.load(path) for path in sorted(Path(scratch).glob("report*.npy"))]
        return report.read_text().splitlines(), saved


def means(rounds: int) -> Figures:
    figures: Figures = defaultdict(lambda: defaultdict(list))
    for _ in range(rounds):
        for name, (peers, device, keys) in MEANS.items():
            for line in run(peers, "gpu_means.py", device, *keys)[0]:
                key, seconds = line.split()
                figures[name][key].append(float(seconds))
    return figures


def fit(peers: int, device: str, model: str) -> Fit:
    (line,), weights = run(peers, "gpu_fit.py", device, model)
    return Fit(float(line.split()[1]), weights)


def apart(one: Fit, other: Fit) -> float:
    """How far their weights are apart, at most, beside the largest weight."""
    first, second = one.weights[0], other.weights[0]
    return float(np.abs(first - second).max() / np.abs(first).max())


def compared(model: str) -> Iterator[str]:
    """A row. Two processes on the GPU against each other, one on the GPU, and two on the CPU."""
    both, alone = fit(PEERS, "GPU", model), fit(1, "GPU", model)
    on_cpu, alone_on_cpu = fit(PEERS, "CPU", model), fit(1, "CPU", model)
    bits = all(np.array_equal(both.weights[0], weights) for weights in both.weights)
    distances = [apart(both, alone), apart(both, on_cpu), apart(alone, alone_on_cpu)]
    holds = bits and max(distances) <= TOLERANCE
    yield model
    yield "the same bits" if bits else "DIFFERENT BITS"
    yield from (f"{distance:.1e}" for distance in distances)
    yield from (report.show_seconds(one.seconds) for one in (alone, both, alone_on_cpu, on_cpu))
    yield "equal" if holds else "NOT EQUAL"


def gpus() -> str:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    options = report.parser(__doc__, rounds=3).parse_args()
    figures = means(options.rounds)
    rows = [list(compared(model)) for model in MODELS]
    nearest = statistics.median(figures[list(MEANS)[1]][SIZES[-1]])
    lines = [
        f"{gpus()}; {PEERS} peers on one host share it. Data of a GPU travel through the host.",
        "",
        "## Averages",
        "",
        "float32, each a call of a `tf.function`, until the result can be read on the host.",
        "",
        *report.table(figures, SIZES),
        "",
        f"100 MiB: {0.1048576 / nearest:.1f} GB/s per peer.",
        "",
        "## The same `fit`",
        "",
        "Five epochs of 24 steps on 1,536 handwritten digits, 64 samples in a step, the same ones",
        "everywhere. TF32 is off. Distances are of the weights at the end, beside the largest one.",
        "",
        "| model | both peers | 2 peers from 1 process, on the GPU | 2 peers on the GPU from 2 on"
        " the CPU | 1 process on the GPU from 1 on the CPU | step: 1, GPU | 2, GPU | 1, CPU |"
        " 2, CPU | verdict |",
        "|---" * 10 + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    report.write(options.results / "gpu", "On a GPU", lines)
    sys.exit(any(row[-1] != "equal" for row in rows))


if __name__ == "__main__":
    main()
