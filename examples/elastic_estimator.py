"""An Estimator that goes on while peers come and go. It needs TF 2.15, the last that has one.

kungfu-run -w -np 1 -H 127.0.0.1:4 python examples/elastic_estimator.py
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


class Sizes(v1.train.SessionRunHook):
    """Prints how many peers there are, whenever that is another number."""

    size = 0

    def after_run(
        self, run_context: v1.train.SessionRunContext, run_values: v1.train.SessionRunValues
    ) -> None:
        if kf.size() != self.size and kf.is_root():
            print(f"peers: {kf.size()}", flush=True)
        self.size = kf.size()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64, help="samples per step, of each peer")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--schedule", default="1:200,4:2000,2:1", help="peers:steps, ...")
    options = parser.parse_args()
    data = fashion_mnist.load()

    def train_input() -> tf.data.Dataset:
        # Each peer draws its own samples, without an end: peers may come at any step.
        dataset = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
        dataset = dataset.shuffle(len(data.train_images), seed=kf.uid() % 2**31)
        return dataset.repeat().batch(options.batch)

    def test_input() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((data.test_images, data.test_labels)).batch(500)

    # Whoever has rank 0 writes checkpoints. A job that may be started anew needs a folder that
    # stays, the same for all peers.
    with tempfile.TemporaryDirectory() as directory:
        estimator = v1.estimator.Estimator(model_fn, model_dir=directory)
        hooks = [kf.hooks.ElasticHook(options.schedule, options.steps), Sizes()]
        estimator.train(train_input, hooks=hooks)
        if kf.detached():  # others go on
            return
        if kf.is_root():
            result = estimator.evaluate(test_input)
            print(f"test: loss {result['loss']:.4f}, accuracy {result['accuracy']:.4f}")


if __name__ == "__main__":
    main()
