"""A program for KungFu and TensorFlow 1: an Estimator.

kungfu-run -np 4 python tf1_estimator.py --data-dir ~/var/data/mnist --model-dir ckpt
"""

import argparse

import tensorflow as tf
from kungfu.python import current_cluster_size, current_rank
from kungfu.tensorflow.initializer import BroadcastGlobalVariablesHook
from kungfu.tensorflow.optimizers import SynchronousSGDOptimizer
from kungfu.tensorflow.v1.helpers.mnist import load_datasets


def model_fn(features, labels, mode):
    x = tf.reshape(features["x"], [-1, 784])
    hidden = tf.layers.dense(x, 32, activation=tf.nn.relu)
    logits = tf.layers.dense(hidden, 10)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    if mode == tf.estimator.ModeKeys.TRAIN:
        optimizer = SynchronousSGDOptimizer(tf.train.GradientDescentOptimizer(0.1))
        train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode=mode, loss=loss, train_op=train_op)
    accuracy = tf.metrics.accuracy(labels=labels, predictions=tf.argmax(logits, axis=1))
    return tf.estimator.EstimatorSpec(mode=mode, loss=loss, eval_metric_ops={"accuracy": accuracy})


def train_input_fn(data, batch_size):
    samples = tf.data.Dataset.from_tensor_slices(({"x": data.images}, data.labels.astype("int32")))
    shard = samples.shard(current_cluster_size(), current_rank())
    return shard.shuffle(512).repeat(2).batch(batch_size)


def test_input_fn(data):
    return tf.estimator.inputs.numpy_input_fn(
        x={"x": data.images}, y=data.labels.astype("int32"), batch_size=64, shuffle=False
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--model-dir", required=True)
    parser.add_argument("--steps", type=int, default=16)
    args = parser.parse_args()

    mnist = load_datasets(args.data_dir, normalize=True)
    model_dir = f"{args.model_dir}/{current_rank()}"
    classifier = tf.estimator.Estimator(model_fn, model_dir=model_dir)
    hooks = [BroadcastGlobalVariablesHook()]
    classifier.train(lambda: train_input_fn(mnist.train, 32), hooks=hooks, max_steps=args.steps)
    results = classifier.evaluate(test_input_fn(mnist.test), hooks=[], steps=None)
    accuracy = results["accuracy"]
    print(f"accuracy: {accuracy:f}")


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.WARN)
    main()
