"""Trainings that lose peers and take in others. Who is left compares its weights with one process.

survivors_elastic.py FOLDER fit|plain|loop PLAN, as 4 peers. Each peer writes down in FOLDER
what it trains on, so whoever is left can repeat alone what those have done together that were there
in each step.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from faults import get_notice, terminate_runner

import kungfu_tf as kf
from kungfu_tf import context, peer
from kungfu_tf.native import libraries

keras = tf.keras
keras.backend.set_floatx("float64")
FOLDER = Path(sys.argv[1])
SAMPLES, BATCH, EPOCHS, SEED = 110, 4, 2, 3
RATE = 1 / 128  # of one peer; times their number it is exact in float32
COUNTED = "kungfu/all have samples"  # the vote on the counts of a step


def name_of_this_peer() -> str:
    """Its first rank; of newcomers n0, n1 and so on. They come one after the other."""
    if not kf.joining():
        return str(kf.rank())
    for number in itertools.count():
        with contextlib.suppress(FileExistsError):
            (FOLDER / f"n{number}").touch(exist_ok=False)
            return f"n{number}"
    raise AssertionError


ME = name_of_this_peer()


class Plan(NamedTuple):
    """Where peers die, and others come.

    Attributes:
        steps: Who dies at a step, before it takes part in it, or between the forward and the
            backward pass.
        at_once: Who dies when it starts, or in its first step with others.
        grows: After which steps newcomers come, and the number that somebody asks for; None:
            nobody does.
        left: The number of peers at the end.
        notices: Who gets SIGTERM, at which step.
        ends_at: At which step the runner gets SIGTERM.
    """

    steps: dict[tuple[str, str], int]
    at_once: set[tuple[str, str]]
    grows: dict[int, int | None]
    left: int
    notices: dict[str, int] = {}
    ends_at: int | None = None


STEPS, AT_ONCE, GROWS, LEFT, NOTICES, ENDS_AT = {
    "asked": Plan(
        {("1", "begin"): 2, ("0", "begin"): 9, ("2", "backward"): 14},
        {("n0", "start"), ("n1", "joined")},
        {5: 4, 11: 3},
        left=2,
    ),
    "respawned": Plan(
        {("1", "begin"): 2, ("0", "backward"): 7},
        {("n0", "start")},
        {4: None, 9: None},
        left=4,
    ),
    "spared": Plan({("1", "begin"): 2, ("0", "backward"): 7}, set(), {4: None, 9: None}, left=4),
    "noticed": Plan({}, set(), {}, left=2, notices={"2": 2, "0": 6}),
    "ended": Plan({}, set(), {}, left=0, ends_at=5),
    "resumed": Plan({}, set(), {}, left=3),
}[sys.argv[3]]


def die(where: str, step: int | None = None) -> None:
    """Ends this process where it is to."""
    if (ME, where) in AT_ONCE or (step is not None and STEPS.get((ME, where)) == step):
        print(f"dies as {ME}: {where}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def write(step: int, epoch: int, numbers: Any) -> None:
    with (FOLDER / f"{ME}.seen").open("a") as file:
        file.write(f"{step} {epoch} {peer.agreed_size()} {' '.join(map(str, numbers))}\n")


def grow(size: int | None) -> None:
    """Waits for newcomers. Asks for so many peers, again if a newcomer dies."""
    deadline = time.monotonic() + 100
    while not peer.outdated():
        assert time.monotonic() < deadline
        if size is not None:
            kf.propose_new_size(size)
        time.sleep(0.02)


class Seen(NamedTuple):
    """What one peer had in one step.

    Attributes:
        epoch: The epoch.
        peers: The number of peers that scales its learning rate.
        numbers: Those of its samples.
    """

    epoch: int
    peers: int
    numbers: list[int]


def seen_by_all() -> dict[int, dict[str, Seen]]:
    """Of each step what each peer had."""
    steps: dict[int, dict[str, Seen]] = collections.defaultdict(dict)
    for path in FOLDER.glob("*.seen"):
        for line in path.read_text().splitlines():
            step, epoch, peers, *numbers = map(int, line.split())
            assert path.stem not in steps[step], (step, path)
            steps[step][path.stem] = Seen(epoch, peers, numbers)
    return steps


def trained_on() -> Iterator[tuple[list[int], float, float]]:
    """Of each step the samples in it, by how many their sum is divided, and the learning rate.

    A peer that dies after the forward pass has said how many it has, but its gradients are lost.
    The mean is that over those that are left, whose weights are those of the earlier count.
    """
    steps = seen_by_all()
    assert sorted(steps) == list(range(len(steps))), sorted(steps)
    for step, parts in sorted(steps.items()):
        lost = [name for (name, where), at in STEPS.items() if (where, at) == ("backward", step)]
        kept = [part.numbers for name, part in parts.items() if name not in lost]
        counted = sum(len(part.numbers) for part in parts.values())
        [peers] = {part.peers for part in parts.values()}
        assert step < len(steps) - 1 or peers == len(parts), (peers, parts)  # at the end
        yield [n for part in kept for n in part], counted * len(kept) / len(parts), RATE * peers


def check(weights: list[Any], expected: list[Any]) -> None:
    assert all(kf.ops.consensus(w, name=f"weights/{i}") for i, w in enumerate(weights))
    for mine, theirs in zip(weights, expected, strict=True):
        off = np.linalg.norm(mine - theirs) / np.linalg.norm(theirs)
        assert off < 1e-12, off


class Injector(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.epoch = self.heard = self.counts = 0
        self.is_newcomer = kf.joining()

    def step(self) -> int:
        return int(self.model.optimizer.iterations.numpy())

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.counts = libraries.completed(COUNTED)
        if not kf.joining():
            die("joined")
            if not self.is_newcomer:  # they have no step yet
                die("begin", self.step())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if kf.is_root() and self.step() == ENDS_AT:
            terminate_runner()
        if kf.is_root() and self.step() in GROWS:
            grow(GROWS.pop(self.step()))

    def await_count(self) -> None:
        """Waits until all peers know how many samples this step has, if they count them."""
        deadline = time.monotonic() + 60
        while self.counts and libraries.completed(COUNTED) == self.counts:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def on_membership_change(self) -> None:
        self.heard += 1


def data() -> tuple[Any, Any]:
    x = np.random.default_rng(1).normal(size=(SAMPLES, 3))
    return x, np.stack([np.sin(x.sum(axis=1)), 1 + np.arange(SAMPLES)], axis=1)


def squares(y: Any, predicted: Any) -> Any:
    return tf.reduce_mean((predicted - tf.cast(y, tf.float64)[:, :1]) ** 2, axis=-1)


def model_of(optimizer: Any, loss: Any = squares) -> Any:
    keras.utils.set_random_seed(11)
    layers = [keras.layers.Input((3,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile(optimizer, loss)
    return model


def looked(at: Any, look: Any, *arguments: Any) -> Any:
    with tf.control_dependencies([tf.numpy_function(look, list(arguments), [])]):
        return tf.identity(at)


def fit() -> None:
    injector = Injector()

    def note(step: Any, numbers: Any) -> None:
        if not kf.joining():
            # 0: of no sample, in the place of an empty batch.
            write(int(step), injector.epoch, [int(n) - 1 for n in numbers if n])
        if NOTICES.get(ME) == int(step):
            get_notice()

    def backward(step: Any) -> None:
        if not kf.joining():
            if STEPS.get((ME, "backward")) == int(step):
                injector.await_count()
            die("backward", int(step))

    def loss(y: Any, predicted: Any) -> Any:
        step = tf.convert_to_tensor(model.optimizer.iterations)

        @tf.custom_gradient
        def trapped(predicted: Any) -> Any:
            return tf.identity(predicted), lambda upstream: looked(upstream, backward, step)

        y = tf.cast(y, tf.float64)
        return squares(y, trapped(looked(predicted, note, step, y[:, 1])))

    schedule = keras.optimizers.schedules.ExponentialDecay(RATE, 1, 1.0)
    sgd = keras.optimizers.SGD(kf.callbacks.scale_learning_rate(schedule), momentum=0.9)
    model = model_of(kf.optimizers.SynchronousSGDOptimizer(sgd), loss)
    x, y = data()
    backup = keras.callbacks.BackupAndRestore(str(FOLDER / "backup"))
    callbacks = [injector, *([backup] if sys.argv[3] in ("ended", "resumed") else [])]
    arguments = {"epochs": EPOCHS, "verbose": 0, "callbacks": callbacks}
    try:
        if sys.argv[2] == "plain":
            samples = tf.data.Dataset.from_tensor_slices((x, y))
            history = model.fit(kf.data.shard(samples, shuffle=SAMPLES).batch(BATCH), **arguments)
        else:
            history = kf.elastic.fit(model, x, y=y, batch_size=BATCH, seed=SEED, **arguments)
    except SystemExit:
        print("left", ME, flush=True)
        raise
    assert history.epoch == [*range(EPOCHS)], history.epoch
    assert kf.size() == LEFT
    kf.barrier(name="all have written")
    for epoch in range(EPOCHS):
        parts = [part for parts in seen_by_all().values() for part in parts.values()]
        numbers = sorted(n for part in parts if part.epoch == epoch for n in part.numbers)
        assert numbers == [*range(SAMPLES)], (epoch, numbers)
    with context.within(is_alone=True):
        expected = fit_alone(x, y)
    check(model.get_weights(), expected)


def fit_alone(x: Any, y: Any) -> list[Any]:
    model = model_of(keras.optimizers.SGD(RATE, momentum=0.9))
    for numbers, divisor, rate in trained_on():
        model.optimizer.learning_rate = rate
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(squares(y[numbers], model(x[numbers], training=True))) / divisor
        variables = model.trainable_variables
        model.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return [np.asarray(w) for w in model.get_weights()]


def gradient_of(weights: Any, numbers: list[int]) -> Any:
    """The mean over samples of that of a square."""
    x, y = data()
    x, y = x[numbers], y[numbers, 0]
    return 2 * x.T @ (x @ weights - y) / len(numbers)


def loop() -> None:
    """Each sums in each step over what it has drawn, with operations of its own."""
    state = kf.elastic.ElasticState(20)
    try:
        weights = descend(state)
    except SystemExit as end:
        print("left", ME, "at", state.progress, "with code", end.code, flush=True)
        raise
    if state.stop_reason() == "detached":
        print("left", ME, flush=True)
        sys.exit()
    assert kf.size() == LEFT
    kf.barrier(name="all have written")
    expected = np.zeros(3)
    for numbers, _, rate in trained_on():
        expected = expected - rate * gradient_of(expected, numbers)
    check([weights], [expected])


def descend(state: kf.elastic.ElasticState) -> Any:
    """Returns the weights at the end."""
    weights = np.zeros(3)
    random = np.random.default_rng([ord(letter) for letter in ME])
    while not state.stopped():
        with kf.elastic.ElasticContext(state) as should_sync:
            if should_sync:
                weights = kf.ops.broadcast(weights, name="weights").numpy()
            die("joined")
            die("begin", state.progress)
            if NOTICES.get(ME) == state.progress:
                get_notice()
            if kf.is_root() and state.progress == ENDS_AT:
                terminate_runner()
            numbers = random.integers(SAMPLES, size=BATCH).tolist()
            write(state.progress, 0, numbers)
            rate = RATE * peer.agreed_size()
            mine = gradient_of(weights, numbers)
            die("backward", state.progress)
            weights = weights - rate * kf.ops.all_reduce(mine, op="mean", name="step").numpy()
            if kf.is_root() and state.progress + 1 in GROWS:
                grow(GROWS.pop(state.progress + 1))
    return weights


def main() -> None:
    if ME.startswith("n"):
        die("start")
    {"fit": fit, "plain": fit, "loop": loop}[sys.argv[2]]()
    print("survived", ME, flush=True)


if __name__ == "__main__":
    main()
