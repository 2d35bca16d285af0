"""A program for Horovod and TensorFlow 1: MNIST in a MonitoredTrainingSession.

horovodrun -np 4 python hvd_session.py --data mnist.npz
"""

import argparse
import os

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--output", required=True)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--base-lr", type=float, default=0.02)
parser.add_argument("--steps", type=int, default=24)
args = parser.parse_args()


def model(image, target):
    kernel = tf1.get_variable("kernel", [784, 10], initializer=tf1.glorot_uniform_initializer())
    bias = tf1.get_variable("bias", [10], initializer=tf1.zeros_initializer())
    logits = tf.matmul(image, kernel) + bias
    return tf1.losses.sparse_softmax_cross_entropy(target, logits)


def train_input_generator(x_train, y_train, batch_size):
    for begin in range(0, len(x_train), batch_size * hvd.size()):
        mine = slice(begin + hvd.rank(), begin + batch_size * hvd.size(), hvd.size())
        yield x_train[mine], y_train[mine]


def main(_):
    # Horovod: initialize Horovod.
    hvd.init()
    tf1.disable_eager_execution()
    tf1.set_random_seed(hvd.rank())

    with np.load(args.data) as data:
        x_train = data["x_train"].reshape(-1, 784).astype("float32") / 255
        y_train = data["y_train"].astype("int32")

    image = tf1.placeholder(tf.float32, [None, 784], name="image")
    label = tf1.placeholder(tf.int32, [None], name="label")
    loss = model(image, label)

    # Horovod: adjust learning rate based on number of GPUs.
    opt = tf1.train.MomentumOptimizer(args.base_lr * hvd.size(), 0.9)

    # Horovod: add Horovod Distributed Optimizer.
    opt = hvd.DistributedOptimizer(opt)

    global_step = tf1.train.get_or_create_global_step()
    train_op = opt.minimize(loss, global_step=global_step)
    weights = tf1.trainable_variables()

    hooks = [
        # Horovod: BroadcastGlobalVariablesHook broadcasts initial variable states from rank 0 to
        # all other processes.
        hvd.BroadcastGlobalVariablesHook(0),
        tf1.train.StopAtStepHook(last_step=args.steps),
        tf1.train.LoggingTensorHook({"step": global_step, "loss": loss}, every_n_iter=10),
    ]

    # Horovod: save checkpoints only on worker 0 to prevent other workers from corrupting them.
    checkpoint_dir = os.path.dirname(args.output) if hvd.rank() == 0 else None
    config = tf1.ConfigProto()
    config.gpu_options.visible_device_list = str(hvd.local_rank())
    config.gpu_options.allow_growth = True

    with tf1.train.MonitoredTrainingSession(
        checkpoint_dir=checkpoint_dir, hooks=hooks, config=config
    ) as mon_sess:
        while not mon_sess.should_stop():
            for x, y in train_input_generator(x_train, y_train, args.batch_size):
                _, values = mon_sess.run([train_op, weights], feed_dict={image: x, label: y})
                if mon_sess.should_stop():
                    break
    print(f"checksum: {float(sum(np.abs(w).sum() for w in values))!r}")
    if hvd.rank() == 0:
        np.savez(args.output, *values)


if __name__ == "__main__":
    tf1.app.run()
