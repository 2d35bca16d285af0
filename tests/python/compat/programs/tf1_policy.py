"""A program for KungFu and TensorFlow 1: a policy that makes batches larger, and measures noise.

kungfu-run -np 4 python tf1_policy.py
"""

import math

import numpy as np
import tensorflow as tf
from kungfu.python import current_rank
from kungfu.tensorflow.initializer import BroadcastGlobalVariablesHook
from kungfu.tensorflow.optimizers import MonitorGradientNoiseScaleOptimizer
from kungfu.tensorflow.policy import BasePolicy, PolicyHook
from kungfu.tensorflow.variables import (
    create_setter,
    eval_batch_size,
    eval_gradient_noise_scale,
    get_batch_size,
    get_or_create_batch_size,
)

BATCH_SIZE = 8
EPOCH_SIZE = 128
EPOCHS = 3


class DoubleBatchSize(BasePolicy):
    def __init__(self):
        self.sizes = []
        self.noise_scale = math.nan

    def before_train(self):
        self.set_batch_size = create_setter(get_batch_size())

    def before_epoch(self, sess):
        self.sizes.append(eval_batch_size(sess))

    def after_step(self, sess):
        self.noise_scale = eval_gradient_noise_scale(sess)

    def after_epoch(self, sess):
        self.set_batch_size(sess, 2 * eval_batch_size(sess))


class OwnBatchSize(BasePolicy):
    """What others than rank 0 want for themselves counts nothing."""

    def before_train(self):
        self.set_batch_size = create_setter(get_batch_size())

    def after_step(self, sess):
        if current_rank() != 0:
            self.set_batch_size(sess, 3)


random = np.random.RandomState(1 + current_rank())
x_train = random.normal(size=(EPOCH_SIZE * EPOCHS, 8)).astype("float32")
y_train = (x_train.sum(axis=1, keepdims=True) > 0).astype("float32")

batch_size = get_or_create_batch_size(BATCH_SIZE)
indices = tf.random_uniform([tf.cast(batch_size, tf.int32)], maxval=len(x_train), dtype=tf.int32)
x, y_ = tf.gather(tf.constant(x_train), indices), tf.gather(tf.constant(y_train), indices)
weights = tf.get_variable("weights", [8, 1])
logits = tf.matmul(x, weights)
loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y_, logits=logits))
optimizer = MonitorGradientNoiseScaleOptimizer(tf.train.GradientDescentOptimizer(0.5), BATCH_SIZE)
train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
policy = DoubleBatchSize()
hooks = [
    BroadcastGlobalVariablesHook(),
    PolicyHook([policy, OwnBatchSize()], EPOCH_SIZE, EPOCHS, BATCH_SIZE),
]
with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
    while not sess.should_stop():
        _, trained = sess.run([train_op, weights])
predicted = (x_train @ trained > 0).astype("float32")
assert not math.isnan(policy.noise_scale)
print(f"batch sizes: {policy.sizes}")
print(f"accuracy: {np.mean(predicted == y_train):f}")
