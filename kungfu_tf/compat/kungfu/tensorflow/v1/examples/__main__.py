"""Reduces a number and trains another in a session, and checks both."""

from __future__ import annotations

import tensorflow as tf
from kungfu.tensorflow.ops import all_reduce, current_cluster_size, current_rank
from kungfu.tensorflow.optimizers import SynchronousSGDOptimizer

_STEPS = 5
_RATE = 0.1

v1 = tf.compat.v1


def main() -> None:
    """The loss is x², so that each step makes x smaller by the same factor."""
    size = current_cluster_size()
    print(f"rank={current_rank()}, np={size}")
    with tf.Graph().as_default(), v1.Session() as session:
        total = all_reduce(tf.ones([], tf.int32))
        x = v1.get_variable("x", initializer=1.0, use_resource=True)
        optimizer = SynchronousSGDOptimizer(v1.train.GradientDescentOptimizer(_RATE))
        train_op = optimizer.minimize(x * x)
        session.run(v1.global_variables_initializer())
        for step in range(1, _STEPS + 1):
            session.run(train_op)
            found = [session.run(total), session.run(x)]
            print(f"step {step}: sum {found[0]}, x {found[1]:f}")
            if found[0] != size or abs(found[1] - (1 - 2 * _RATE) ** step) > 1e-6:
                raise RuntimeError(f"step {step}: wrong values: {found}")


if __name__ == "__main__":
    main()
