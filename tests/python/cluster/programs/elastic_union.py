"""Two peers train different heads of a model, and a third one comes; prints "ok" on each.

It trains no head, or the first, and traces its step alone. It must exchange the heads of the others
nevertheless, who trace nothing anew. The argument says which loop is used.
"""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

import kungfu_tf as kf

TOGETHER = 6  # steps of three peers
keras = tf.keras
IS_NEWCOMER = kf.joining()
HEAD = None if IS_NEWCOMER else kf.rank()
traces = 0


class Heads(keras.Model):
    """Which of its two heads the loss depends on is said by each peer."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = keras.layers.Dense(2)
        self.heads = [keras.layers.Dense(2, name=f"head{i}") for i in range(2)]

    def call(self, x: tf.Tensor) -> tf.Tensor:
        global traces
        traces += 1
        trunk = self.trunk(x)
        outputs = [head(trunk) for head in self.heads]
        return trunk if HEAD is None else outputs[HEAD]


def is_last_step(sizes: list[int]) -> bool:
    """Also asks for another peer, in the first step."""
    sizes.append(kf.size())
    if kf.is_root() and len(sizes) == 1:
        kf.propose_new_size(3)
    return sizes.count(3) == TOGETHER


class Steps(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.model.stop_training = is_last_step(self.sizes)


def fit(model: Heads, optimizer: keras.optimizers.Optimizer, x: np.ndarray) -> None:
    model.compile(kf.optimizers.SynchronousSGDOptimizer(optimizer), "mse")
    samples = tf.data.Dataset.from_tensor_slices((x, x[:, :2]))
    dataset = kf.data.shard(samples).batch(4, drop_remainder=True)
    # The outputs may differ between peers.
    callbacks = [kf.callbacks.BroadcastGlobalVariablesCallback(check_every=None), Steps()]
    kf.elastic.fit(model, dataset, epochs=10**6, verbose=0, callbacks=callbacks)


def loop(model: Heads, optimizer: keras.optimizers.Optimizer, x: np.ndarray) -> None:
    model(x)
    optimizer.build(model.trainable_variables)
    state, sizes = kf.elastic.ElasticState(None), []

    @tf.function
    def step() -> None:
        with kf.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_mean(tf.square(model(x) - x[:, :2]))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    is_last = False
    while not is_last:
        with kf.elastic.ElasticContext(state) as should_sync:
            if should_sync:
                kf.initializer.broadcast_variables(model.variables)
            step()
            is_last = is_last_step(sizes)


def main() -> None:
    keras.utils.set_random_seed(3)
    model = Heads()
    x = np.random.default_rng(1).normal(size=(60, 3)).astype("float32")
    {"fit": fit, "loop": loop}[sys.argv[1]](model, keras.optimizers.SGD(0.05), x)
    weights = np.concatenate([w.ravel() for w in model.get_weights()])
    assert kf.ops.consensus(weights)
    assert np.all(np.isfinite(weights))
    print("ok", kf.rank(), flush=True)


if __name__ == "__main__":
    main()
