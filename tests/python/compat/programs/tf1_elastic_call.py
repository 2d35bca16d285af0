"""A program for KungFu and TensorFlow 1: it resizes by an operation at certain steps.

kungfu-run -w -np 1 -H 127.0.0.1:2 python tf1_elastic_call.py
"""

import tensorflow as tf
from kungfu.python import current_cluster_size, detached
from kungfu.tensorflow.ops import all_reduce, group_all_reduce, resize

SCHEDULE = {2: 2, 5: 1}
STEPS = 8

global_step = tf.train.get_or_create_global_step()
sync_op = tf.assign(global_step, all_reduce(global_step, op="max"))
next_op = tf.assign_add(global_step, 1)
train_op = group_all_reduce([tf.Variable(tf.ones([2, 5]))])
size = tf.placeholder(dtype=tf.uint32)
resize_op = resize(size)

sizes = []
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    need_sync = True
    while not detached():
        if need_sync:
            sess.run(sync_op)
            need_sync = False
        (total,) = sess.run(train_op)
        assert total.sum() == 10 * current_cluster_size()
        sizes.append(current_cluster_size())
        step = sess.run(global_step)
        if step in SCHEDULE:
            need_sync = sess.run(resize_op, feed_dict={size: SCHEDULE[step]})
            assert need_sync
        if sess.run(next_op) >= STEPS:
            break
    print(f"{'detached' if detached() else 'ended'} at {step} {sizes}")
print("accuracy: 1.0")
