"""Three peers have shards of an optimizer, and one leaves; prints "ok" or "detached" on each.

`fit` trains with the peers that there are, since it could take in no others. After the change a
step is an error, one that was traced before and one that is traced now.
"""

from __future__ import annotations

import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import errors

keras = tf.keras


def main() -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    optimizer = kf.optimizers.ShardedOptimizer(keras.optimizers.Adam(0.01))

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(tf.ones([2, 4]))))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    samples = tf.data.Dataset.from_tensor_slices((tf.ones([12, 4]), tf.ones([12, 2])))
    model.compile(optimizer, "mse")
    model.fit(kf.data.shard(samples).batch(2), verbose=0)
    assert int(optimizer.iterations) == 2
    traced = tf.function(step)
    traced()
    assert kf.resize(n=2)
    if kf.detached():
        print("ok detached", flush=True)
        return
    before = model.get_weights()
    for try_step, error in [
        (traced, tf.errors.InvalidArgumentError),
        (step, errors.FailedPreconditionError),
    ]:
        try:
            try_step()
        except error as raised:
            assert "slots are those of 3 peers" in str(raised), raised
        else:
            raise AssertionError("a step of other peers was taken")
    assert all((old == new).all() for old, new in zip(before, model.get_weights(), strict=True))
    print("ok", kf.rank(), flush=True)


if __name__ == "__main__":
    main()
