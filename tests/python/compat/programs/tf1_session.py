"""A program for KungFu and TensorFlow 1: a Session, fed with MNIST's files.

kungfu-run -np 4 python tf1_session.py --data-dir ~/var/data/mnist
"""

import argparse

import numpy as np
import tensorflow as tf
from kungfu.python import current_cluster_size, current_rank
from kungfu.tensorflow.initializer import BroadcastGlobalVariablesOp
from kungfu.tensorflow.ops import all_reduce, barrier
from kungfu.tensorflow.optimizers import (
    AdaptiveSGDOptimizer,
    PairAveragingOptimizer,
    SynchronousAveragingOptimizer,
    SynchronousSGDOptimizer,
)
from kungfu.tensorflow.v1.helpers.mnist import load_datasets


def build_optimizer(name, learning_rate):
    optimizer = tf.train.GradientDescentOptimizer(learning_rate)
    if name == "sync-sgd":
        return SynchronousSGDOptimizer(optimizer, False, True)
    if name == "async-sgd":
        return PairAveragingOptimizer(optimizer, fuse_requests=True)
    if name == "sma":
        return SynchronousAveragingOptimizer(optimizer, "sma", 0.1)
    if name == "ada-sgd":
        return AdaptiveSGDOptimizer(optimizer, change_step=32)
    raise RuntimeError(f"unknown optimizer: {name}")


def build_model(optimizer):
    x = tf.placeholder(tf.float32, [None, 784])
    y_ = tf.placeholder(tf.float32, [None, 10])
    hidden = tf.layers.dense(x, 32, activation=tf.nn.relu)
    y = tf.layers.dense(hidden, 10)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(logits=y, labels=y_))
    train_op = optimizer.minimize(loss)
    correct = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
    return x, y_, train_op, tf.reduce_mean(tf.cast(correct, tf.float32))


def train(sess, x, y_, train_op, data, steps, batch_size):
    shard_size = batch_size // current_cluster_size()
    offset = current_rank() * shard_size
    for step in range(steps):
        begin = step * batch_size % (len(data.images) - batch_size + 1) + offset
        xs = data.images[begin : begin + shard_size].reshape(-1, 784)
        ys = data.labels[begin : begin + shard_size]
        sess.run(train_op, feed_dict={x: xs, y_: ys})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kf-optimizer", default="sync-sgd")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=16)
    args = parser.parse_args()

    mnist = load_datasets(args.data_dir, normalize=True, one_hot=True)
    x, y_, train_op, accuracy = build_model(build_optimizer(args.kf_optimizer, 0.1))
    checksum = tf.add_n([tf.reduce_sum(v) for v in tf.trainable_variables()])
    total = all_reduce(checksum)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(BroadcastGlobalVariablesOp())
        train(sess, x, y_, train_op, mnist.train, args.steps, args.batch_size)
        one, all_of_them = sess.run([checksum, total])
        if args.kf_optimizer in ("sync-sgd", "ada-sgd"):
            np.testing.assert_allclose(all_of_them, one * current_cluster_size(), rtol=1e-6)
        sess.run(barrier())
        test = {x: mnist.test.images.reshape(-1, 784), y_: mnist.test.labels}
        print(f"accuracy: {sess.run(accuracy, feed_dict=test):f}")


if __name__ == "__main__":
    main()
