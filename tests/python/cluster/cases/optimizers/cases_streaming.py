"""DiLoCo in fragments, whose meetings may end later, against NumPy. All peers simulate all."""

from __future__ import annotations

import itertools
import os
import tempfile

import numpy as np
import tensorflow as tf
import training
from diloco_in_numpy import (
    MOMENTUM,
    NAMES,
    OUTER_MOMENTUM,
    OUTER_RATE,
    RATE,
    Simulation,
    algorithm_of,
    assert_close,
    assert_same,
    first,
    keras,
    mine,
    step_of,
    targets,
    variables_of,
    wrapped,
)
from harness import each, exhaustive
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import errors
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import DiLoCoOptimizer
from kungfu_tf.replicas import sample_weights
from kungfu_tf.upstream import generations

JOBS = [
    {"np": 3},
    {"np": 1, "cases": ["the_end_at_any_step"]},
    {"np": 2, "cases": ["a_loop_of_other_sizes"]},
    {"np": 4, "cases": ["a_loop_of_other_sizes"]},
]

# every, fragments, overlap, merge
SETTINGS = {
    "blocking": (5, 1, 0, 0.5),
    "fragments": (7, 3, 0, 0.5),
    "overlap": (5, 1, 3, 0.5),
    "both": (9, 3, 2, 0.25),
    "four": (9, 4, 1, 0.0),
}
ALL = ["blocking", "fragments", "overlap", "both", "four"]


def wrapped_as(setting):
    return wrapped(*SETTINGS[setting])


@each(setting=ALL, mode=["function", "eager"])
@exhaustive(setting=["both", "overlap"], mode=["function"])
def case_a_loop(setting, mode):
    trains_as_simulated(setting, mode)


@each(setting=ALL)
@exhaustive(setting=["both"])
def case_a_loop_of_other_sizes(setting):
    trains_as_simulated(setting, "function")


def trains_as_simulated(setting, mode):
    optimizer, variables = wrapped_as(setting), variables_of()
    step, simulation = step_of(optimizer, variables, mode), Simulation(*SETTINGS[setting])
    for number, of_step in enumerate(targets(43)):
        step(mine(of_step))
        simulation.step(of_step)
        values = [value[kf.rank()] for value in simulation.values]
        assert_close([v.numpy() for v in variables], values, f"step {number}")
    assert max(np.ptp(v, axis=0).max() for v in simulation.values) > 1e-3 or kf.size() == 1
    algorithm_of(optimizer).share_state()
    simulation.merge = 1.0  # the anchors move, and the models do not
    for f in list(simulation.under_way):
        simulation.end(f)
    assert_same(optimizer, variables, simulation, "at the end")
    if kf.size() > 1:
        count = SETTINGS[setting][1]
        names = ["outer"] if count == 1 else [f"outer/{f}" for f in range(count)]
        done = [libraries.completed(f"{algorithm_of(optimizer).name}/{name}") for name in names]
        assert done == simulation.meetings


@each(setting=ALL, steps=[1, 5, 6, 9, 12, 15, 18, 20])
@exhaustive(setting=["both"], steps=[6, 12])
def case_the_end_at_any_step(setting, steps):
    """What is under way ends, and all fragments meet. Then the training goes on in a new round."""
    optimizer, variables = wrapped_as(setting), variables_of()
    step, simulation = step_of(optimizer, variables), Simulation(*SETTINGS[setting])
    for of_step in targets(steps):
        step(mine(of_step))
        simulation.step(of_step)
    for _ in range(2):  # the second time there is nothing to do
        algorithm_of(optimizer).finish()
        simulation.finish()
        assert_same(optimizer, variables, simulation, "after the end")
    assert all(kf.ops.consensus(v, name=f"equal/{i}") for i, v in enumerate(variables))
    simulation.met = [0] * len(simulation.met)
    simulation.steps = 0
    for of_step in targets(11):
        step(mine(of_step))
        simulation.step(of_step)
    algorithm_of(optimizer).finish()
    simulation.finish()
    assert_same(optimizer, variables, simulation, "after another one")


@each(setting=["fragments", "both"])
@exhaustive(setting=["both"])
def case_samples_count(setting):
    """Those since a fragment's last meeting."""
    optimizer, variables = wrapped_as(setting), variables_of()
    step, simulation = step_of(optimizer, variables, "eager"), Simulation(*SETTINGS[setting])
    for number, of_step in enumerate(targets(20)):
        samples = 1.0 + (np.arange(kf.size()) + number) % 3 + number * np.arange(kf.size())
        with sample_weights.samples(tf.constant(int(samples[kf.rank()]))):
            step(mine(of_step))
        simulation.step(of_step, samples)
    algorithm_of(optimizer).finish()
    simulation.finish()
    assert_same(optimizer, variables, simulation, "at the end")


@each(setting=["overlap", "both"], steps=[6, 7, 11])
@exhaustive(setting=["both"], steps=[11])
def case_a_checkpoint_while_something_is_under_way(setting, steps):
    """`share_state` on all peers; then the state, and each peer's own model and slots."""
    folder = os.path.join(
        tempfile.gettempdir(), f"{os.environ['KUNGFU_JOB_ID']}-{setting}-{steps}-{kf.rank()}"
    )
    simulation = Simulation(*SETTINGS[setting])
    all_targets = targets(25)

    def prepared():
        optimizer, variables = wrapped_as(setting), variables_of()
        algorithm = algorithm_of(optimizer)
        algorithm.build(variables)
        generations.build(optimizer, variables)
        own = [generations.native(v) for v in generations.variables_of(optimizer)]
        checkpoint = tf.train.Checkpoint(
            variables=variables,
            algorithm=algorithm.state,
            own=own,
            samples=algorithm._samples.get(),
        )
        return optimizer, variables, checkpoint

    optimizer, variables, checkpoint = prepared()
    step = step_of(optimizer, variables)
    for of_step in all_targets[:steps]:
        step(mine(of_step))
        simulation.step(of_step)
    algorithm_of(optimizer).share_state()
    path = checkpoint.save(folder)
    kf.barrier()
    optimizer, variables, checkpoint = prepared()
    checkpoint.restore(path).assert_consumed()
    step = step_of(optimizer, variables)
    for of_step in all_targets[steps:]:
        step(mine(of_step))
        simulation.step(of_step)
    algorithm_of(optimizer).finish()
    simulation.finish()
    assert_same(optimizer, variables, simulation, "resumed")


def case_what_is_evaluated_does_not_wait():
    optimizer, variables = wrapped_as("overlap"), variables_of()
    step, simulation = step_of(optimizer, variables), Simulation(*SETTINGS["overlap"])
    for of_step in targets(6):
        step(mine(of_step))
        simulation.step(of_step)
    with kf.average_variables(variables):
        assert_close([v.numpy() for v in variables], simulation.anchors, "evaluated")
    assert_same(optimizer, variables, simulation, "afterwards")


@each(fragments=[1, 2])
@exhaustive(fragments=[2])
def case_codecs_work_with_fragments(fragments):
    optimizer = wrapped(5, fragments, compression=kf.compression.Cast("float16"))
    variables = variables_of()
    step, simulation = step_of(optimizer, variables), Simulation(5, fragments, 0, 0.0)
    for of_step in targets(5):
        step(mine(of_step))
        simulation.step(of_step)
    for variable, expected in zip(variables, simulation.values, strict=True):
        np.testing.assert_allclose(variable.numpy(), expected[kf.rank()], rtol=1e-2, atol=1e-2)
    algorithm_of(optimizer).finish()
    assert all(kf.ops.consensus(v, name=f"equal/{i}") for i, v in enumerate(variables))


@each(precision=["float16", "bfloat16"])
@exhaustive(precision=["bfloat16"])
def case_halves(precision):
    """Anchors and what travels are float32."""
    optimizer = wrapped_as("both")
    named = zip(first(), NAMES, strict=True)
    variables = [tf.Variable(tf.cast(value, precision), name=name) for value, name in named]
    step = step_of(optimizer, variables)
    for of_step in targets(20):
        step([tf.cast(t, precision) for t in mine(of_step)])
    algorithm_of(optimizer).finish()
    assert {a.dtype for a in algorithm_of(optimizer).anchors} == {tf.float32}
    assert all(kf.ops.consensus(v, name=f"equal/{i}") for i, v in enumerate(variables))


def case_a_single_meeting_at_a_time_of_each_layer():
    optimizer = wrapped_as("both")
    algorithm = algorithm_of(optimizer)
    algorithm.build(variables_of())
    dealt = [[v.name.split(":")[0] for v in part] for part in algorithm._dealt]
    assert dealt == [["a/kernel", "a/bias", "d/scale"], ["b/kernel"], ["c/kernel", "c/bias"]]


def case_arguments():
    def refused(error, **options):
        text = raised_by(error, lambda: DiLoCoOptimizer(keras.optimizers.SGD(0.1), **options))
        [word] = itertools.islice(options, 1)
        assert word in text, text

    refused(TypeError, fragments=1.5, every=4)
    refused(ValueError, fragments=0, every=4)
    refused(ValueError, fragments=5, every=4)
    refused(ValueError, overlap=-1, every=4)
    refused(ValueError, overlap=4, every=4)
    refused(ValueError, overlap=2, fragments=2, every=5)
    refused(ValueError, merge=1.0, every=4, overlap=1)
    refused(ValueError, merge="half", every=4, overlap=1)
    refused(ValueError, overlap=1, every=4, compression=kf.compression.Int8())


def case_fewer_layers_than_fragments():
    optimizer = wrapped(8, fragments=5)
    step = step_of(optimizer, variables_of(), "eager")
    text = raised_by(errors.UnimplementedError, lambda: step(mine(targets(1)[0])))
    assert "fragments=5 is more than the layers of the model, 4" in text


def case_keras_2_and_legacy_optimizers():
    """As the first case, with the other families of this Keras."""
    if training.is_keras_3():
        return
    legacy = keras.optimizers.legacy
    every, fragments, overlap, merge = SETTINGS["both"]
    optimizer = DiLoCoOptimizer(
        legacy.SGD(RATE, momentum=MOMENTUM),
        outer=legacy.SGD(OUTER_RATE, momentum=OUTER_MOMENTUM, nesterov=True),
        every=every,
        fragments=fragments,
        overlap=overlap,
        merge=merge,
    )
    variables, simulation = variables_of(), Simulation(*SETTINGS["both"])
    step = step_of(optimizer, variables)
    for of_step in targets(30):
        step(mine(of_step))
        simulation.step(of_step)
    algorithm_of(optimizer).finish()
    simulation.finish()
    assert_same(optimizer, variables, simulation, "at the end")
