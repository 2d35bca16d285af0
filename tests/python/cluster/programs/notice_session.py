"""A monitored session in which peers get SIGTERM: some, who leave, or the launcher, and so all.

notice_session.py FOLDER leave|end. Each step subtracts the mean of numbers that each peer has one
of. Each peer writes down in FOLDER which steps it has made, so the others know what to expect.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from faults import get_notice, terminate_runner

import kungfu_tf as kf

v1 = tf.compat.v1
FOLDER, HOW = Path(sys.argv[1]), sys.argv[2]
ME, SIZE, STEPS = kf.rank(), kf.size(), 12
NOTICES = {2: 3, 0: 6} if HOW == "leave" else {}
NUMBERS = [1.0, 3.0, 9.0, 27.0]


class Inject(v1.train.SessionRunHook):
    """Sends the signal in a step. Writes down the step when it is made."""

    def __init__(self) -> None:
        self.step = 0

    def before_run(self, run_context) -> None:
        if NOTICES.get(ME) == self.step:
            print("injected", flush=True)
            get_notice()
        if HOW == "end" and ME == 0 and self.step == 5:
            print("injected", flush=True)
            terminate_runner()

    def after_run(self, run_context, run_values) -> None:
        with (FOLDER / f"{ME}.made").open("a") as file:
            file.write(f"{self.step}\n")
        self.step += 1


def expected() -> float:
    """The weight after the steps that were made."""
    made = {p: (FOLDER / f"{p}.made").read_text().split() for p in range(SIZE)}
    weight = 0.0
    for step in range(STEPS):
        numbers = [NUMBERS[p] for p in range(SIZE) if str(step) in made[p]]
        weight -= sum(numbers) / len(numbers)
    return weight


def main() -> None:
    directory = FOLDER / "checkpoints"
    with tf.Graph().as_default():
        weight = v1.get_variable("weight", [], tf.float64, initializer=v1.zeros_initializer())
        optimizer = kf.optimizers.SynchronousSGDOptimizer(v1.train.GradientDescentOptimizer(1.0))
        step = v1.train.get_or_create_global_step()
        train = optimizer.minimize(weight * NUMBERS[ME], global_step=step)
        last = v1.train.FinalOpsHook([step.read_value(), weight.read_value()])
        hooks = [kf.hooks.ElasticHook(None, STEPS), Inject(), last]
        with v1.train.MonitoredTrainingSession(
            hooks=hooks, checkpoint_dir=str(directory), save_checkpoint_steps=100
        ) as session:
            while not session.should_stop():
                session.run(train)
    if kf.detached():
        print("left", ME, "after", int(last.final_ops_values[0]), flush=True)
        return
    assert HOW == "leave"
    kf.barrier(name="all have written")
    steps, result = map(float, last.final_ops_values)
    assert steps == STEPS, steps
    np.testing.assert_allclose(result, expected(), rtol=1e-12)
    print("survived", ME, flush=True)


if __name__ == "__main__":
    main()
