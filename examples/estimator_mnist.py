"""An Estimator. TensorFlow has had none since 2.16: this needs TF 2.15.

kungfu-run -np 4 python examples/estimator_mnist.py
"""

from __future__ import annotations

import argparse
import tempfile

import fashion_mnist
import tensorflow as tf

import kungfu_tf as kf

v1 = tf.compat.v1


def model_fn(features: tf.Tensor, labels: tf.Tensor, mode: str) -> v1.estimator.EstimatorSpec:
    pixels = tf.reshape(
        tf.cast(features, tf.float32) / 255, [-1, features.shape[1:].num_elements()]
    )
    hidden = v1.layers.dense(pixels, 64, activation=tf.nn.relu)
    logits = v1.layers.dense(hidden, 10)
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == v1.estimator.ModeKeys.EVAL:
        accuracy = v1.metrics.accuracy(labels, tf.argmax(logits, axis=1))
        return v1.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})

    optimizer = v1.train.MomentumOptimizer(learning_rate=0.05, momentum=0.9)
    optimizer = kf.optimizers.SynchronousSGDOptimizer(optimizer)
    train_op = optimizer.minimize(loss, global_step=v1.train.get_or_create_global_step())
    return v1.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=128, help="samples per step, over all peers")
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    data = fashion_mnist.load()

    def train_input() -> tf.data.Dataset:
        dataset = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
        dataset = kf.data.shard(dataset)
        dataset = dataset.shuffle(len(data.train_images) // kf.size(), seed=kf.rank()).repeat()
        return dataset.batch(options.batch // kf.size())

    def test_input() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((data.test_images, data.test_labels)).batch(500)

    # Rank 0 alone writes to the directory, and evaluates; all peers learn what it has found.
    with tempfile.TemporaryDirectory() as directory:
        estimator = v1.estimator.Estimator(model_fn, model_dir=directory)
        hooks = [kf.initializer.BroadcastGlobalVariablesHook()]
        train = v1.estimator.TrainSpec(train_input, max_steps=options.steps, hooks=hooks)
        evaluation = v1.estimator.EvalSpec(test_input, steps=None)
        result, _ = v1.estimator.train_and_evaluate(estimator, train, evaluation)
        if kf.is_root():
            print(f"test: loss {result['loss']:.4f}, accuracy {result['accuracy']:.4f}")


if __name__ == "__main__":
    main()
