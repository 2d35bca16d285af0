"""A language model of characters, a small transformer, on real text.

    kungfu-run -np 4 python examples/language_model.py                Jane Austen's novels
    kungfu-run -np 4 python examples/language_model.py --text FILE    a text of one's own

Each peer draws its own windows of the text, with its own dice. Rank 0 ends with a sample.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import austen
import numpy as np
import tensorflow as tf

import kungfu_tf as kf

keras = tf.keras


class Positions(keras.layers.Layer):
    """Adds to each place of a window what the model has learnt of the place."""

    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="normal", name="table")

    def call(self, x):
        return x + self.table


def block(x, heads: int):
    """Attention to what came before, and a small network for each place."""
    width = x.shape[-1]
    attention = keras.layers.MultiHeadAttention(heads, width // heads)
    normal = keras.layers.LayerNormalization()(x)
    x = x + attention(normal, normal, use_causal_mask=True)
    normal = keras.layers.LayerNormalization()(x)
    return x + keras.layers.Dense(width)(keras.layers.Dense(4 * width, "gelu")(normal))


def build_model(characters: int, window: int, width: int, blocks: int) -> keras.Model:
    inputs = keras.Input((window,), dtype="int32")
    x = Positions()(keras.layers.Embedding(characters, width)(inputs))
    for _ in range(blocks):
        x = block(x, heads=4)
    x = keras.layers.LayerNormalization()(x)
    return keras.Model(inputs, keras.layers.Dense(characters)(x))


def windows(codes: np.ndarray, window: int, seed: int) -> tf.data.Dataset:
    """Endless windows from anywhere, each with the same one place further."""
    text = tf.constant(codes)
    starts = tf.data.Dataset.random(seed=seed).map(lambda n: tf.cast(n, tf.int32) & 0x7FFFFFFF)
    pieces = starts.map(lambda n: tf.slice(text, [n % (len(codes) - window)], [window + 1]))
    return pieces.map(lambda piece: (piece[:-1], piece[1:]))


def sample(model: keras.Model, alphabet: str, start: np.ndarray, length: int) -> str:
    """`length` characters after `start`, drawn by their probability."""
    random = np.random.default_rng(seed=1)
    codes = list(start)
    for _ in range(length):
        logits = model(np.array([codes[-len(start) :]], np.int32)).numpy()[0, -1].astype("float64")
        chances = np.exp(logits - logits.max())
        codes.append(random.choice(len(alphabet), p=chances / chances.sum()))
    return "".join(alphabet[code] for code in codes[len(start) :])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="a file of text (default: Jane Austen's novels)")
    parser.add_argument("--batch", type=int, default=64, help="windows per step, over all peers")
    parser.add_argument("--steps", type=int, default=200, help="steps per epoch")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=2)
    options = parser.parse_args()

    text = options.text.read_text() if options.text else austen.load()
    alphabet = "".join(sorted(set(text)))
    codes = np.searchsorted(np.array(list(alphabet)), np.array(list(text))).astype(np.int32)
    held_out = len(codes) // 20
    train = windows(codes[:-held_out], options.window, seed=kf.rank())
    validation = windows(codes[-held_out:], options.window, seed=1000 + kf.rank())
    batch = options.batch // kf.size()

    keras.utils.set_random_seed(1)
    model = build_model(len(alphabet), options.window, options.width, options.blocks)
    optimizer = kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.Adam(2e-3))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    history = model.fit(
        train.batch(batch, drop_remainder=True).prefetch(2),
        epochs=options.epochs,
        steps_per_epoch=options.steps,
        validation_data=validation.batch(batch),
        validation_steps=max(1, options.steps // 10),
        verbose=2,
    ).history
    if kf.is_root():
        print(
            f"test: loss {history['val_loss'][-1]:.4f}, accuracy {history['val_accuracy'][-1]:.4f}"
        )
        print(sample(model, alphabet, codes[-options.window :], 200))


if __name__ == "__main__":
    main()
