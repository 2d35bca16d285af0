"""A monitored session that averages models, through 1, 3 and 2 peers; prints "ok" on each.

All note everybody's model after each step. Before the first step of others, all have the mean of
the models that there were, of those that leave, too.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from elastic_session import STEPS, Wait

import kungfu_tf as kf

v1 = tf.compat.v1


class Models(Wait):
    """Notes the model and the gradient of each peer after each step, the same on all peers."""

    def __init__(self):
        super().__init__()
        self.values, self.seen, self.last = None, [], None

    def after_run(self, run_context, run_values):
        self.seen.append(run_context.session.run(self.values))
        super().after_run(run_context, run_values)

    def end(self, session):
        if not kf.detached():
            self.last = session.run(self.values)

    def check(self):
        """A newcomer does not know what was before it; a job of one has nothing to average."""
        changes = 0
        for before, after in zip(self.seen, self.seen[1:], strict=False):
            if len(after) == len(before):
                continue
            changes += 1
            begun = after[:, 0] + after[:, 1]  # the rate is 1
            mean = before[:, 0].mean()
            np.testing.assert_allclose(begun, mean, rtol=0, atol=1e-12)
            assert len(before) == 1 or np.ptp(before[:, 0]) > 1e-9
        return changes


def trained_by(wrap, *hooks):
    """An operation that trains by a gradient of each peer's own, and what the peers have."""
    gradient = tf.constant(kf.uid() / 2**63, tf.float64)
    weight = v1.get_variable("weight", [], tf.float64, initializer=v1.ones_initializer())
    optimizer = wrap(v1.train.GradientDescentOptimizer(1.0))
    train = optimizer.minimize(weight * gradient, v1.train.get_or_create_global_step())
    return train, kf.ops.all_gather(tf.stack([weight.read_value(), gradient]))


def main() -> None:
    models = Models()
    with tf.Graph().as_default():
        train, models.values = trained_by(
            lambda o: kf.optimizers.SynchronousAveragingOptimizer(o, alpha=0.01)
        )
        hooks = [kf.hooks.ElasticHook("1:4,3:5,2:1", STEPS), models]
        with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(train)
    changes = models.check()
    if kf.detached():
        print("ok detached", flush=True)
        return
    assert np.ptp(models.last[:, 0]) == 0, models.last
    print("ok", kf.rank(), changes, flush=True)


if __name__ == "__main__":
    main()
