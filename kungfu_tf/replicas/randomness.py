"""Gives each peer its own random numbers, derived from a seed that all peers have in common.

A program that is to be repeatable calls `set_random_seed(seed)` on every peer. Then all would drop
out the same units, flip the same images and draw the same noise. So in `fit` random numbers depend
on their seeds and on the rank:

- Generators that belong to the model: Keras 3's `SeedGenerator`s, those of the random layers of
  Keras 2, and `tf.random.Generator`s in attributes of layers. Each is moved once, and stays moved.
  Rank 0 keeps its own.
- The generators of `tf.random.*` and `keras.random.*` without a seed, while `fit` runs. Afterwards
  all peers continue as if nothing had been drawn, and draw the same again.

Numbers without any seed differ anyway. The generators of NumPy and Python stay as they are, and so
do the random numbers of a dataset that was made before `fit`. Programs shard by them, and peers
must then draw the same.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager

from kungfu_tf import peer
from kungfu_tf.upstream import generations, patches

_GLOBAL_SEED_GENERATOR = "global_seed_generator"  # what every Keras 3 calls it


def separate(model: Any) -> None:
    """Moves the generators of the model's layers, each once. A second `fit` continues with them."""
    if peer.joining():  # its rank is not known yet
        return
    for layer in model._flatten_layers():
        for generator in _generators(layer):
            if not hasattr(generator, "_kungfu_rank"):
                generator._kungfu_rank = peer.rank()
                _move(generator)


@contextlib.contextmanager
def of_this_peer() -> Iterator[None]:
    """Within it the seeds of the process are this peer's own. Afterwards they are restored."""
    with contextlib.ExitStack() as stack:
        if peer.joining():  # its rank is not known yet
            yield
            return
        stack.enter_context(_own_seed())
        for package in generations.packages():
            if package.generation == 3:
                stack.enter_context(_own_seed_generator(package))
        yield


@contextlib.contextmanager
def put_back(model: Any) -> Iterator[None]:
    """Afterwards generators of the model and of the process continue as if nothing was drawn."""
    before = [(state, state.read_value()) for state in _all_states(model._flatten_layers())]
    with seeds_put_back():
        try:
            yield
        finally:
            for state, value in before:
                state.assign(value)


@contextlib.contextmanager
def seeds_put_back() -> Iterator[None]:
    """Afterwards what is drawn without a generator continues as if nothing was drawn."""
    drawn = eager.context()._rng.getstate() if eager.context()._seed is not None else None
    try:
        yield
    finally:
        if drawn is not None:
            eager.context()._rng.setstate(drawn)


@contextlib.contextmanager
def redrawn(layers: Iterable[Any]) -> Iterator[None]:
    """Within it other random numbers are drawn than without it. Generators stay moved."""
    for state in _all_states(layers):
        state.assign_add(tf.ones_like(state))
    here = eager.context()
    seed, rng = here._seed, getattr(here, "_rng", None)  # there is none without a seed
    if seed is not None:
        here._seed, here._rng = _moved(seed, 1), random.Random(_moved(seed, 1))
    random.random()
    np.random.random()
    try:
        yield
    finally:
        if seed is not None:
            here._seed, here._rng = seed, rng


def draws(layer: Any) -> bool:
    """Whether a layer has a generator of random numbers."""
    return bool(_generators(layer))


def _all_states(layers: Iterable[Any]) -> list[Any]:
    """The variables of their generators, and of the process' own."""
    states = [state for layer in layers for state in _states(layer)]
    for package in generations.packages():
        found = _generator_of_keras_random(package) if package.generation == 3 else None
        if found is not None:
            states.append(generations.native(found[0].state))
    return list({id(state): state for state in states}.values())


def _states(layer: Any) -> Iterator[Any]:
    """The variables of a layer's generators."""
    for generator in _generators(layer):
        inner = getattr(generator, "_generator", generator)  # Keras 2's have one of TensorFlow
        if hasattr(inner, "state"):
            yield generations.native(inner.state)


def _moved(seed: int, times: int) -> int:
    # Multiples of an odd number near 2^32 / golden ratio lie far apart.
    return (seed + times * 0x9E3779B1) % (1 << 31)


def _generators(layer: Any) -> list[Any]:
    found = list(getattr(layer, "_seed_generators", []))  # Keras 3
    found += [getattr(layer, "_random_generator", None)]  # Keras 2
    found += [value for value in vars(layer).values() if isinstance(value, tf.random.Generator)]
    return [generator for generator in found if generator is not None]


def _move(generator: Any) -> None:
    if hasattr(generator, "_maybe_init"):  # Keras 2's: one of TensorFlow, or a seed for each op
        generator._maybe_init()
        if generator._generator is not None:
            _move(generator._generator)
        elif generator._seed is not None and peer.rank() > 0:
            generator._seed = _moved(generator._seed, peer.rank())
        return
    state = generations.native(generator.state)
    # Keras keeps [seed, how many were drawn], TensorFlow [how many were drawn, ..., key].
    place = -1 if isinstance(generator, tf.random.Generator) else 0
    values = state.numpy()
    if peer.rank() > 0:
        values[place] = _moved(int(values[place]), peer.rank())
    state.assign(values)


@contextlib.contextmanager
def _own_seed() -> Iterator[None]:
    """Gives this peer its own global seed of TensorFlow, from which eager operations draw."""
    context = eager.context()
    seed = context._seed
    if seed is None:
        yield
        return
    theirs = context._rng
    own_seed = _moved(seed, 1 + peer.rank())
    mine = vars(theirs).setdefault("kungfu_own", random.Random(own_seed))
    context._seed, context._rng = own_seed, mine
    try:
        yield
    finally:
        if context._rng is mine:  # the program has not set another one
            context._seed, context._rng = seed, theirs


@contextlib.contextmanager
def _own_seed_generator(package: generations.Package) -> Iterator[None]:
    """Gives this peer its own generator of `keras.random.*`."""
    found = _generator_of_keras_random(package)
    if found is None:
        yield
        return
    theirs, get, put = found
    if not hasattr(theirs, "kungfu_own"):
        seed = int(theirs.state.numpy()[0])
        generator = package.module.random.SeedGenerator
        theirs.kungfu_own = generator(_moved(seed, 1 + peer.rank()))
    mine = theirs.kungfu_own
    put(_GLOBAL_SEED_GENERATOR, mine)
    try:
        yield
    finally:
        if get(_GLOBAL_SEED_GENERATOR) is mine:
            put(_GLOBAL_SEED_GENERATOR, theirs)


def _generator_of_keras_random(package: generations.Package) -> tuple[Any, Any, Any] | None:
    found: tuple[Any, Any, Any] | None = patches.comfort(
        *(package.title, "random.seed_generator.global_seed_generator"),
        "keras.random draws other numbers on each peer",
        lambda: _global_seed_generator(package),
    )
    return found


def _global_seed_generator(package: generations.Package) -> tuple[Any, Any, Any]:
    """The global generator, and the functions that return and replace it."""
    state = package.private("backend.common.global_state")
    theirs = package.private("random.seed_generator").global_seed_generator()
    return theirs, state.get_global_attribute, state.set_global_attribute
