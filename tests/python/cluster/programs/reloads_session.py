"""A session whose peers are all started anew, in another number; prints the step it goes on at."""

from __future__ import annotations

import sys

import tensorflow as tf
from elastic_server import wait_for_change

import kungfu_tf as kf

v1 = tf.compat.v1
FIRST, STEPS = 5, 9  # of one peer, and in all


class AsksForTwo(v1.train.SessionRunHook):
    def after_run(self, run_context, run_values):
        step = run_context.session.run(v1.train.get_global_step())
        if (kf.size(), step) == (1, FIRST):
            kf.propose_new_size(2)
            wait_for_change()


def main() -> None:
    weight = v1.get_variable("weight", [], tf.float64, initializer=v1.ones_initializer())
    optimizer = kf.optimizers.SynchronousSGDOptimizer(v1.train.GradientDescentOptimizer(0.1))
    step = v1.train.get_or_create_global_step()
    train = optimizer.minimize(weight * weight, step)
    hooks = [kf.hooks.ElasticHook(None, STEPS), AsksForTwo()]
    with v1.train.MonitoredTrainingSession(hooks=hooks, checkpoint_dir=sys.argv[1]) as session:
        print("of", kf.size(), "from", session.run(step), flush=True)
        while not session.should_stop():
            session.run(train)


if __name__ == "__main__":
    with tf.Graph().as_default():
        main()
