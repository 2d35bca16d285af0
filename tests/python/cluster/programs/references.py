"""What a training with a fault comes to, in one process: from the definitions of the methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from faults import (
    ALPHA,
    BATCH,
    CHANGE_STEP,
    EPOCHS,
    EVERY,
    MERGE,
    MOMENTUM,
    OF_GRADIENTS,
    OUTER_RATE,
    OVERLAP,
    STEPS,
    Fault,
    data_of,
    model_of,
)

from kungfu_tf import context


def alone(peers: list[int], fault: Fault, first_without: int, *, has_sent: bool) -> list[Any]:
    """The weights after a training by one process, on the batches of those that were there.

    Args:
        peers: Those of the beginning.
        fault: Which of them is lost.
        first_without: The first step without it.
        has_sent: Whether what is under way when it is lost comes from it, too.
    """
    with context.within(is_alone=True):
        if fault.method == "Streaming":
            return alone_with_overlaps(peers, fault, first_without, has_sent)
        if fault.method == "AdaptiveSGD":
            return alone_with_models_then_one(peers, fault, first_without, has_sent)
        if fault.method == "pairs":
            return alone_with_pairs(peers, fault, first_without, has_sent)
        methods = {**dict.fromkeys(OF_GRADIENTS, alone_with_one_model), "SMA": alone_with_models}
        method = methods.get(fault.method, alone_with_meetings)
        return method(peers, fault, first_without)


def those_there(
    peers: list[int], fault: Fault, first_without: int
) -> Iterator[dict[int, tuple[Any, Any]]]:
    """The batches of each step, by peer."""
    data = {peer: data_of(peer) for peer in peers}
    for step in range(EPOCHS * STEPS):
        rows = slice(step % STEPS * BATCH, (step % STEPS + 1) * BATCH)
        yield {
            p: (x[rows], y[rows])
            for p, (x, y) in data.items()
            if step < fault.without(first_without).get(p, EPOCHS * STEPS)
        }


def those_left(peers: list[int], fault: Fault) -> list[int]:
    """The peers that make the last step, and meet after it."""
    is_there = fault.kind == "cut" or fault.phase == "fit end"
    return [p for p in peers if is_there or p not in (fault.who, fault.before)]


def alone_with_one_model(peers: list[int], fault: Fault, first_without: int) -> list[Any]:
    """S-SGD: a step of one process on the samples of all peers."""
    model = model_of(None)
    for batches in those_there(peers, fault, first_without):
        model.train_on_batch(*map(np.concatenate, zip(*batches.values(), strict=True)))
    return weights_of(model)


def alone_with_models(peers: list[int], fault: Fault, first_without: int) -> list[Any]:
    """SMA. Before `fit` ends all peers that are left get the mean of their models."""
    models = {p: model_of(None) for p in peers}
    for batches in those_there(peers, fault, first_without):
        draw_together({models[p]: batch for p, batch in batches.items()})
    return mean_of(weights_of(models[p]) for p in those_left(peers, fault))


def alone_with_models_then_one(
    peers: list[int], fault: Fault, first_without: int, has_sent: bool
) -> list[Any]:
    """AdaptiveSGD: SMA; then the first peer's model, with its optimizer, makes the steps of S-SGD.

    A peer that is lost in the last step of SMA may have drawn the others, and not sent its model.
    """
    models = {p: model_of(None) for p in peers}
    first = None
    for step, batches in enumerate(those_there(peers, fault, first_without)):
        if step < CHANGE_STEP:
            draw_together({models[p]: batch for p, batch in batches.items()})
            senders = [p for p in batches if has_sent or p != fault.who]
            first = models[senders[0]]
        else:
            first.train_on_batch(*map(np.concatenate, zip(*batches.values(), strict=True)))
    return weights_of(first)


def alone_with_pairs(
    peers: list[int], fault: Fault, first_without: int, has_sent: bool
) -> list[Any]:
    """v ← ½·(v + the next peer's v after the step before), then a step by the gradient at v.

    Before `fit` ends all peers that are left get the mean of their models.
    """
    models = {p: model_of(None) for p in peers}
    theirs: dict[int, list[Any]] = {}
    for step, batches in enumerate(those_there(peers, fault, first_without)):
        if step == first_without and not has_sent:
            theirs = {p: w for p, w in theirs.items() if next_of(peers)[p] != fault.who}
        for p, batch in batches.items():
            own = weights_of(models[p])
            drawn = [(v + u) / 2 for v, u in zip(own, theirs.get(p, own), strict=True)]
            step_from(models[p], batch, drawn)
        theirs = {p: weights_of(models[other]) for p, other in next_of([*batches]).items()}
    return mean_of(weights_of(models[p]) for p in those_left(peers, fault))


def next_of(peers: list[int]) -> dict[int, int]:
    return dict(zip(peers, [*peers[1:], peers[0]], strict=True))


def draw_together(batches: dict[Any, tuple[Any, Any]]) -> None:
    """A step of SMA: v ← (1−α)·v + α·mean of v, then a step by the gradient at the old v."""
    before = {model: weights_of(model) for model in batches}
    means = mean_of(before.values())
    for model, batch in batches.items():
        pairs = zip(before[model], means, strict=True)
        step_from(model, batch, [(1 - ALPHA) * v + ALPHA * mean for v, mean in pairs])


def step_from(model: Any, batch: tuple[Any, Any], weights: list[Any]) -> None:
    """The optimizer's step from these weights, by the gradient at the model's own."""
    x, y = batch
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    gradients = tape.gradient(loss, variables)
    model.set_weights(weights)
    model.optimizer.apply_gradients(zip(gradients, variables, strict=True))


def alone_with_meetings(peers: list[int], fault: Fault, first_without: int) -> list[Any]:
    """LocalSGD, DiLoCo: each trains its own model; after some steps those that are there meet.

    Before `fit` ends there is a last meeting.
    """
    models = {p: model_of(None) for p in peers}
    meeting = Meeting(weights_of(models[peers[0]]), fault.method)
    for step, batches in enumerate(those_there(peers, fault, first_without)):
        for p, batch in batches.items():
            models[p].train_on_batch(*batch)
        if (step + 1) % EVERY == 0:
            common = meeting.of([weights_of(models[p]) for p in batches])
            for p in batches:
                models[p].set_weights(common)
    return meeting.of([weights_of(models[p]) for p in those_left(peers, fault)])


def alone_with_overlaps(
    peers: list[int], fault: Fault, first_without: int, has_sent: bool
) -> list[Any]:
    """DiLoCo whose meetings end some steps later, when those that are left merge their models."""
    models = {p: model_of(None) for p in peers}
    meeting = Meeting(weights_of(models[peers[0]]), "DiLoCo")
    under_way: dict[int, list[Any]] = {}
    for step, batches in enumerate(those_there(peers, fault, first_without), start=1):
        for p, batch in batches.items():
            models[p].train_on_batch(*batch)
        if under_way and step % EVERY == OVERLAP:
            common = meeting.of([w for p, w in under_way.items() if has_sent or p in batches])
            under_way = {}
            for p in batches:
                mine = zip(weights_of(models[p]), common, strict=True)
                models[p].set_weights([MERGE * v + (1 - MERGE) * anchor for v, anchor in mine])
        if step % EVERY == 0:
            under_way = {p: weights_of(models[p]) for p in batches}
    return meeting.of([weights_of(models[p]) for p in those_left(peers, fault)])


class Meeting:
    """What peers have in common, and the outer optimizer's momentum."""

    def __init__(self, weights: list[Any], method: str) -> None:
        self.anchor, self.method = weights, method
        self.speeds = [0.0 * w for w in weights]

    def of(self, models: list[list[Any]]) -> list[Any]:
        """The weights that all these models get."""
        means = mean_of(models)
        if self.method == "LocalSGD":
            return means
        moves = [OUTER_RATE * (a - m) for a, m in zip(self.anchor, means, strict=True)]
        self.speeds = [MOMENTUM * s - m for s, m in zip(self.speeds, moves, strict=True)]
        moved = zip(self.anchor, self.speeds, moves, strict=True)
        self.anchor = [a + MOMENTUM * s - m for a, s, m in moved]
        return self.anchor


def weights_of(model: Any) -> list[Any]:
    return [np.asarray(w) for w in model.get_weights()]


def mean_of(models: Iterable[list[Any]]) -> list[Any]:
    return [np.mean(parts, axis=0) for parts in zip(*models, strict=True)]
