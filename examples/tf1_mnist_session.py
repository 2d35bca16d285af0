"""A TensorFlow 1 program: a graph, a Session, an optimizer of tf.compat.v1.train.

kungfu-run -np 4 python examples/tf1_mnist_session.py
"""

from __future__ import annotations

import argparse

import fashion_mnist
import numpy as np
import tensorflow.compat.v1 as tf

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer


def build_graph(pixels: int) -> tuple[tf.Tensor, tf.Tensor, tf.Operation, tf.Tensor, tf.Tensor]:
    images = tf.placeholder(tf.float32, [None, pixels], name="images")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    weights = tf.get_variable("weights", [pixels, 10], initializer=tf.zeros_initializer())
    bias = tf.get_variable("bias", [10], initializer=tf.zeros_initializer())
    logits = tf.matmul(images, weights) + bias
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    correct = tf.equal(tf.argmax(logits, axis=1), labels)
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))

    optimizer = tf.train.GradientDescentOptimizer(learning_rate=0.1)
    optimizer = SynchronousSGDOptimizer(optimizer)
    return images, labels, optimizer.minimize(loss), loss, accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=128, help="samples per step, over all peers")
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()

    tf.disable_eager_execution()
    data = fashion_mnist.load()
    train_images, test_images = (
        part.reshape(len(part), -1).astype(np.float32) / 255
        for part in (data.train_images, data.test_images)
    )
    images, labels, train_op, loss, accuracy = build_graph(train_images.shape[1])

    mine = np.arange(kf.rank(), len(train_images), kf.size())
    random = np.random.default_rng(seed=kf.rank())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())  # the first step starts from rank 0's
        for step in range(options.steps):
            batch = random.choice(mine, options.batch // kf.size())
            feed = {images: train_images[batch], labels: data.train_labels[batch]}
            _, value = session.run([train_op, loss], feed)
            if step % 100 == 0 and kf.is_root():
                print(f"step {step}: loss {value:.4f}")
        if kf.is_root():
            feed = {images: test_images, labels: data.test_labels}
            print(f"test: accuracy {session.run(accuracy, feed):.4f}")


if __name__ == "__main__":
    main()
