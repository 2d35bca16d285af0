"""Steps to the mean by each topology, and the bias that methods of neighbours keep.

kungfu-run -np 8 python topologies.py REPORT steps|bias|exact

Rank 0 writes lines of JSON to REPORT:

- steps: `topology`, `degree`, `gap`, `predicted` steps, and `steps` until the distance of any
  values from their mean is at most 1e-10 of what it was.
- bias: `method`, `rate`, and the relative errors after training: `error` of the peers' models,
  `of_mean`, and `simulated`, which is `error` in NumPy.
- exact: `size`, and `error`, the largest of the weights after a cycle of `base_graph()`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import optimizers, topology

Line = dict[str, Any]
CLOSE = 1e-10
STATIC = [
    topology.ring(),
    topology.star(),
    topology.grid(),
    topology.exponential(),
    topology.hypercube(),
]
CYCLES = [topology.base_graph(), topology.base_graph(degree=2), topology.one_peer_exponential()]
MOST = 1000  # steps
ROWS, FEATURES, TRAINED = 20, 10, 3000  # steps
RATES = (0.5, 0.1)  # of 1/L, where L is the largest curvature


def weights_after(graph: topology.Topology, x: Any, step: int) -> Any:
    """A step of the product. The values are rows of the identity, so they are the weights."""
    return kf.ops.neighbor_all_reduce(x, topology=graph, step=step, name="mixed")


def distance(x: Any) -> tuple[float, float]:
    """By how much the weights of all peers differ from equal ones: the 2-norm, and the largest."""
    size = kf.size()
    whole = kf.ops.all_gather(x, name="gathered").numpy().reshape(size, size) - 1 / size
    return float(np.linalg.norm(whole, 2)), float(np.abs(whole).max())


def first() -> Any:
    return tf.constant(np.eye(kf.size())[kf.rank()])


def steps_of(graph: topology.Topology) -> int:
    x = first()
    for step in range(MOST):
        x = weights_after(graph, x, step)
        if distance(x)[0] <= CLOSE:
            return step + 1
    return MOST


def steps() -> Iterator[Line]:
    for graph in [*STATIC, *CYCLES]:
        exact, gap = graph.exact_steps(kf.size()), graph.spectral_gap(kf.size())
        predicted = exact or math.ceil(math.log(CLOSE) / math.log(1 - gap))
        line = {"topology": repr(graph), "degree": graph.degree(kf.size()), "gap": gap}
        yield {**line, "predicted": predicted, "steps": steps_of(graph)}


def exact() -> Iterator[Line]:
    graph, x = topology.base_graph(), first()
    for step in range(graph.length(kf.size())):
        x = weights_after(graph, x, step)
    yield {"size": kf.size(), "error": distance(x)[1]}


# Least squares of which each peer has other rows, and another solution.
def problem() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    a = random.normal(size=(kf.size(), ROWS, FEATURES))
    laws = random.normal(size=(kf.size(), FEATURES, 1))
    return a, (a @ laws)[..., 0]


def gradients(a: np.ndarray, b: np.ndarray, models: np.ndarray) -> np.ndarray:
    """Of the mean squared error of each peer, halved: [rank, feature]."""
    return np.einsum("prf,pr->pf", a, np.einsum("prf,pf->pr", a, models) - b) / ROWS


Method = tuple[Callable[[Any], Any], Callable[[Any, float], np.ndarray]]


def atc(graph: topology.Topology) -> Method:
    def simulate(gradient: Any, rate: float) -> np.ndarray:
        models = np.zeros([kf.size(), FEATURES])
        for step in range(TRAINED):
            models = graph.at(step, kf.size()) @ (models - rate * gradient(models))
        return models

    return lambda o: optimizers.DecentralizedSGDOptimizer(o, topology=graph), simulate


def awc(graph: topology.Topology) -> Method:
    def simulate(gradient: Any, rate: float) -> np.ndarray:
        models = np.zeros([kf.size(), FEATURES])
        for step in range(TRAINED):
            models = graph.at(step, kf.size()) @ models - rate * gradient(models)
        return models

    return lambda o: optimizers.DecentralizedSGDOptimizer(o, topology=graph, style="awc"), simulate


def tracking(graph: topology.Topology) -> Method:
    def simulate(gradient: Any, rate: float) -> np.ndarray:
        models = np.zeros([kf.size(), FEATURES])
        mixed, known = np.zeros_like(models), np.zeros_like(models)
        for step in range(TRAINED):
            matrix, found = graph.at(step, kf.size()), gradient(models)
            tracked = mixed + found - known
            models, mixed, known = matrix @ (models - rate * tracked), matrix @ tracked, found
        return models

    return lambda o: optimizers.GradientTrackingOptimizer(o, topology=graph), simulate


def diffusion(graph: topology.Topology) -> Method:
    def simulate(gradient: Any, rate: float) -> np.ndarray:
        models = before = np.zeros([kf.size(), FEATURES])
        matrix = graph.at(0, kf.size())
        for _ in range(TRAINED):
            updated = models - rate * gradient(models)
            corrected = updated + models - before
            models, before = (corrected + matrix @ corrected) / 2, updated
        return models

    return lambda o: optimizers.ExactDiffusionOptimizer(o, topology=graph), simulate


def quasi_global(graph: topology.Topology, momentum: float = 0.9) -> Method:
    def simulate(gradient: Any, rate: float) -> np.ndarray:
        models = buffers = np.zeros([kf.size(), FEATURES])
        for step in range(TRAINED):
            directions = gradient(models) + momentum * buffers
            mixed = graph.at(step, kf.size()) @ (models - rate * directions)
            buffers = momentum * buffers + (1 - momentum) * (models - mixed) / rate
            models = mixed
        return models

    def wrap(optimizer: Any) -> Any:
        return optimizers.QuasiGlobalMomentumOptimizer(optimizer, momentum=momentum, topology=graph)

    return wrap, simulate


METHODS: dict[str, Method] = {
    "all-reduce": (
        optimizers.SynchronousSGDOptimizer,
        atc(topology.fully_connected())[1],
    ),
    "awc, ring": awc(topology.ring()),
    "atc, ring": atc(topology.ring()),
    "atc, exponential": atc(topology.exponential()),
    "atc, one-peer exponential": atc(topology.one_peer_exponential()),
    "atc, base graph": atc(topology.base_graph()),
    "quasi-global momentum, ring": quasi_global(topology.ring()),
    "exact diffusion, ring": diffusion(topology.ring()),
    "gradient tracking, ring": tracking(topology.ring()),
    "gradient tracking, one-peer exponential": tracking(topology.one_peer_exponential()),
}


def trained(wrap: Callable[[Any], Any], rate: float) -> np.ndarray:
    """The models of all peers, by the product."""
    a, b = (tf.constant(part[kf.rank()]) for part in problem())
    variable = tf.Variable(tf.zeros([FEATURES], tf.float64))
    optimizer = wrap(keras.optimizers.SGD(rate))

    @tf.function
    def run() -> None:
        for _ in tf.range(TRAINED):
            error = tf.linalg.matvec(a, variable) - b
            gradient = tf.linalg.matvec(a, error, transpose_a=True) / ROWS
            optimizer.apply_gradients([(gradient, variable)])

    run()
    return kf.ops.all_gather(variable, name="models").numpy().reshape(kf.size(), FEATURES)


def bias() -> Iterator[Line]:
    a, b = problem()
    solution = np.linalg.lstsq(a.reshape(-1, FEATURES), b.reshape(-1), rcond=None)[0]
    largest = max(np.linalg.eigvalsh(part.T @ part / ROWS)[-1] for part in a)

    def error_of(models: np.ndarray) -> float:
        return float(
            np.linalg.norm(models - solution) / np.linalg.norm(solution * np.ones_like(models))
        )

    for name, (wrap, simulate) in METHODS.items():
        for part in RATES:
            rate = float(np.float32(part / largest))  # as an optimizer of Keras has it
            models = trained(wrap, rate)
            simulated = simulate(lambda m: gradients(a, b, m), rate)
            mean = models.mean(axis=0, keepdims=True)
            line = {"method": name, "rate": part, "error": error_of(models)}
            yield {**line, "of_mean": error_of(mean), "simulated": error_of(simulated)}


def main() -> None:
    report, section = Path(sys.argv[1]), sys.argv[2]
    keras.backend.set_floatx("float64")
    for line in {"steps": steps, "bias": bias, "exact": exact}[section]():
        if kf.is_root():
            with report.open("a") as lines:
                print(json.dumps(line), file=lines)


if __name__ == "__main__":
    main()
