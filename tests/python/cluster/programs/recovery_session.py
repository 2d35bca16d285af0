"""A session of which rank 1 is killed once; prints where its epochs begin.

It goes on at the step of its checkpoint, and ends as if nothing had happened.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import numpy as np
import sessions
import tensorflow as tf

import kungfu_tf as kf

RUN = int(os.environ["KUNGFU_RESTARTS"])
STEPS, STEPS_OF_EPOCH, SAVED_EVERY, KILLED_AFTER = 12, 4, 5, 7
BATCH = sessions.BATCH

v1 = tf.compat.v1


class Tells(kf.policy.BasePolicy):
    def before_epoch(self, training: Any) -> None:
        made = training.step, "steps,", training.trained_samples, "samples"
        print("run", RUN, "epoch", training.epoch, "after", *made, flush=True)


class Dies(v1.train.SessionRunHook):
    def __init__(self, step: Any) -> None:
        self._step = step

    def before_run(self, run_context: Any) -> None:
        step = run_context.session.run(self._step)
        if (RUN, kf.rank(), step) == (0, 1, KILLED_AFTER):
            os.kill(os.getpid(), signal.SIGKILL)


def steps_saved(directory: str) -> int:
    """How many steps the newest checkpoint has made, which all peers can read."""
    newest = tf.train.latest_checkpoint(directory)
    return 0 if newest is None else int(tf.train.load_variable(newest, "global_step"))


def main(directory: str) -> None:
    # The data have no end that the session would stop at.
    batches = sessions.batches_of(2 * STEPS, kf.rank())[steps_saved(directory) :]
    network = sessions.Network(batches, sessions.distributed())
    size = BATCH * kf.size() * STEPS_OF_EPOCH
    policies = kf.hooks.PolicyHook([Tells()], size, STEPS // STEPS_OF_EPOCH, BATCH)
    options = {"checkpoint_dir": directory, "save_checkpoint_steps": SAVED_EVERY}
    values = sessions.train(network, policies, Dies(network.step), **options)
    sessions.assert_equal(values)
    # The hook's own variables are the last ones.
    for value, wanted in zip(values, sessions.single(STEPS), strict=False):
        np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-14)
    print("run", RUN, "ends", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
