"""DiLoCo whose peers meet their neighbours only, against NumPy. All peers simulate all."""

from __future__ import annotations

import diloco_in_numpy as simulated
import numpy as np
import tensorflow as tf
from diloco_in_numpy import (
    MOMENTUM,
    OUTER_MOMENTUM,
    OUTER_RATE,
    RATE,
    algorithm_of,
    assert_close,
    first,
    keras,
    mine,
    step_of,
    targets,
    variables_of,
)
from harness import each, exhaustive
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import errors
from kungfu_tf.compression import Cast
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import DiLoCoOptimizer

JOBS = [
    {"np": 3},
    {"np": 4, "cases": ["a_loop"]},
    {"np": 1, "cases": ["the_end"]},
]

EVERY, STEPS = 4, 30
GRAPHS = {
    "base": kf.topology.base_graph(),
    "matching": kf.topology.random_matching(seed=5),
    "one way": kf.topology.ring(directed=True),
}


class Simulation:
    """The docstring's update rule, with all peers' anchors and models in one place, [rank, ...]."""

    def __init__(self, graph, fragments=1):
        self.graph, self.steps, self.begun = graph, 0, 0
        self.met, self.meetings = [0] * fragments, [0] * fragments
        self.values = [np.stack([a] * kf.size()) for a in first()]
        self.anchors = [value.copy() for value in self.values]
        self.speeds = [np.zeros_like(v) for v in self.values]
        self.outer_speeds = [np.zeros_like(v) for v in self.values]
        self.parts = [
            [i for layer in simulated.LAYERS[f::fragments] for i in layer] for f in range(fragments)
        ]

    def step(self, of_step):
        for i, target in enumerate(of_step):
            self.speeds[i] = MOMENTUM * self.speeds[i] - RATE * np.tanh(self.values[i] - target)
            self.values[i] = self.values[i] + self.speeds[i]
        self.steps += 1
        for f in range(len(self.parts)):
            if (self.steps - self.begun - f * EVERY // len(self.parts)) % EVERY == 0:
                self.meet(f)

    def meet(self, f):
        matrix = self.graph.at(self.meetings[f], kf.size())
        self.meetings[f] += 1
        self.met[f] = self.steps
        for i in self.parts[f]:
            movement = self.anchors[i] - np.tensordot(matrix, self.values[i], axes=1)
            self.outer_speeds[i] = OUTER_MOMENTUM * self.outer_speeds[i] - OUTER_RATE * movement
            self.anchors[i] = self.anchors[i] + self.outer_speeds[i]
            self.values[i] = self.anchors[i]

    def finish(self):
        for f, met in enumerate(self.met):
            if met != self.steps:
                self.meet(f)
        self.begun = self.steps
        self.values = [np.stack([v.mean(axis=0)] * kf.size()) for v in self.values]
        self.anchors = [value.copy() for value in self.values]


def wrapped(graph, **options):
    return DiLoCoOptimizer(
        keras.optimizers.SGD(RATE, momentum=MOMENTUM),
        outer=keras.optimizers.SGD(OUTER_RATE, momentum=OUTER_MOMENTUM),
        every=EVERY,
        gossip=graph,
        **options,
    )


def assert_same(variables, simulation, what):
    values = [value[kf.rank()] for value in simulation.values]
    assert_close([v.numpy() for v in variables], values, what)


@each(graph=["base", "matching", "one way"], mode=["function", "eager"])
@exhaustive(graph=["base", "matching"], mode=["function"])
def case_a_loop(graph, mode):
    graph = GRAPHS[graph]
    optimizer, variables = wrapped(graph), variables_of()
    step, simulation = step_of(optimizer, variables, mode), Simulation(graph)
    for number, of_step in enumerate(targets(STEPS)):
        step(mine(of_step))
        simulation.step(of_step)
        assert_same(variables, simulation, f"step {number}")
    assert libraries.completed(f"{algorithm_of(optimizer).name}/outer") == STEPS // EVERY


def case_fragments():
    graph = GRAPHS["base"]
    optimizer, variables = wrapped(graph, fragments=2), variables_of()
    step, simulation = step_of(optimizer, variables), Simulation(graph, fragments=2)
    for number, of_step in enumerate(targets(STEPS)):
        step(mine(of_step))
        simulation.step(of_step)
        assert_same(variables, simulation, f"step {number}")


@each(fragments=[1, 2])
def case_the_end(fragments):
    """After a last meeting all continue from the mean of the models.

    It may be between two meetings, or at one. Each has the matrix that follows the last one's.
    """
    graph = GRAPHS["matching"]
    optimizer, variables = wrapped(graph, fragments=fragments), variables_of()
    step, simulation = step_of(optimizer, variables), Simulation(graph, fragments)
    for number, of_step in enumerate(targets(20), start=1):
        step(mine(of_step))
        simulation.step(of_step)
        if number in (5, 6, 10, 14, 19):
            algorithm_of(optimizer).finish()
            simulation.finish()
            assert all(kf.ops.consensus(v) for v in variables)
        assert_same(variables, simulation, f"step {number}")
    found = [int(n) for n in algorithm_of(optimizer).state.meetings]
    assert found == (simulation.meetings if kf.size() > 1 else [0] * fragments)


def case_peers_with_different_topologies():
    # In both, each of the three is a neighbour of both others: it hears from them.
    lazy = kf.topology.from_matrix((np.eye(3) + 1) / 4)
    graph = lazy if kf.rank() == 1 else kf.topology.fully_connected()
    optimizer, variables = wrapped(graph), variables_of()
    step = step_of(optimizer, variables, "eager")
    error = tf.errors.InvalidArgumentError
    text = raised_by(error, lambda: [step(mine(of_step)) for of_step in targets(EVERY)])
    assert "differs between rank" in text and repr(graph) in text, text


def case_a_topology_that_makes_no_means():
    optimizer, variables = wrapped(kf.topology.from_matrix(np.eye(3))), variables_of()
    step = step_of(optimizer, variables, "eager")
    error = errors.InvalidArgumentError
    text = raised_by(error, lambda: [step(mine(of_step)) for of_step in targets(EVERY)])
    assert "never exchange values" in text, text


def case_arguments():
    inner = keras.optimizers.SGD(RATE)
    assert "topology" in raised_by(TypeError, lambda: DiLoCoOptimizer(inner, gossip="ring"))
    for options in ({"overlap": 2}, {"island": "host"}, {"compression": Cast("bfloat16")}):
        text = raised_by(ValueError, lambda o=options: wrapped(GRAPHS["base"], **o))
        assert "gossip cannot be with" in text, text
    [outer] = algorithm_of(DiLoCoOptimizer(inner, gossip=GRAPHS["base"])).outers
    np.testing.assert_allclose(outer.learning_rate, 0.7, rtol=1e-6)
    assert (outer.momentum, outer.nesterov) == (0.5, False)
