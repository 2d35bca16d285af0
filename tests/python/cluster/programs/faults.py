"""Faults in `fit`: where a peer dies, and how a model is made that dies there."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import moments
import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.membership import notice
from kungfu_tf.optimizers.pair_averaging import PairAveraging
from tests.fault.peers import cut_connections

keras = tf.keras
keras.backend.set_floatx("float64")
ME = kf.rank()  # a peer keeps its data, and its place in faults, when its rank changes
SAMPLES, BATCH, EPOCHS, STEPS = 32, 8, 2, 4
VARIABLES = 8  # of the model, which are trained
ALPHA = 0.25  # of SMA
CHANGE_STEP = 3  # of AdaptiveSGD
EVERY = 3  # steps between two meetings of LocalSGD and DiLoCo
OUTER_RATE, MOMENTUM = 5 / 8, 3 / 4  # of DiLoCo; exact in any precision
OVERLAP, MERGE = 2, 1 / 4  # of DiLoCo whose meetings end later ("Streaming")

# Of each phase the step or epoch of the fault, and the first step without the lost peer. Of two
# steps either is right: the fault races with the exchange.
PHASES: dict[str, tuple[int, tuple[int, ...]]] = {
    "fit begin": (0, (0,)),
    "traced": (0, (0,)),
    "epoch begin": (1, (STEPS,)),
    "step begin": (2, (2,)),
    "forward": (2, (2,)),
    "backward": (2, (2,)),  # between the buckets of later and of earlier layers
    "bucket": (2, (2, 3)),  # the first one is there, the others may be under way
    "complete": (2, (2, 3)),  # all are there; nobody need know yet that all others have them
    "voted": (2, (2, 3)),  # that is known here, and delivered soon
    "going over": (2, (2, 3)),  # another peer was lost in that step
    "delivered": (2, (3,)),  # nothing is applied
    "applied in part": (2, (3,)),
    "metrics": (2, (2, 3)),
    "step end": (2, (3,)),
    "validation": (0, (STEPS,)),
    "validation end": (0, (STEPS,)),
    "checkpoint": (0, (STEPS,)),  # of rank 0
    "epoch end": (0, (STEPS,)),
    "fit end": (0, (EPOCHS * STEPS,)),
}


# Gradients are exchanged when they are there, models at any time in the step.
OF_GRADIENTS = ("S-SGD", "noise scale", "variance")
DURING = ("forward", "backward", "delivered", "applied in part", "metrics")


# A peer may be lost when it has made a step, and others have not taken what is theirs of it.
TAKEN_LATER = ("Streaming", "AdaptiveSGD", "pairs")


@dataclasses.dataclass(frozen=True)
class Fault:
    """The peer that is lost, by its first rank, and where; and what trains.

    Attributes:
        kind: What happens to it. With "notice" it gets SIGTERM, and so leaves between two later
            steps; with "cut" its connections are cut, and it stays.
        before: Who is lost before it, so that it goes over then; None: nobody is.
    """

    who: int
    phase: str
    method: str = "S-SGD"
    kind: str = "kill"
    before: int | None = None

    @property
    def number(self) -> int:
        """Of the step or the epoch."""
        return PHASES[self.phase][0]

    @property
    def first_without(self) -> tuple[int, ...]:
        """The first step that is made without the peer; one of several."""
        if self.kind == "notice":
            return tuple(range(1, EPOCHS * STEPS))
        if self.kind == "cut":
            return (EPOCHS * STEPS,)
        if self.method not in OF_GRADIENTS and self.phase in DURING:
            return (2, 3)
        return PHASES[self.phase][1]

    def without(self, first_without: int) -> dict[int, int]:
        """Of each peer that is lost the first step without it, if that is the last one's."""
        lost = {self.who: first_without}
        return lost if self.before is None else {**lost, self.before: self.number}

    @property
    def has_sent(self) -> tuple[bool, ...]:
        """Whether what is under way when it is lost comes from it, too. Either is right."""
        return (True, False) if self.method in TAKEN_LATER else (True,)


class Injector(keras.callbacks.Callback):
    """Kills this process at its fault. Counts what it hears."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.fault, self.step, self.epoch, self.heard = fault, -1, 0, 0
        self.has_begun = self.is_injected = False
        self.watcher: threading.Thread | None = None

    def at(self, phase: str, number: int) -> None:
        if self.is_due(phase, number):
            print("injected", self.fault, flush=True)
            if self.fault.kind == "notice":
                get_notice()
            elif self.fault.kind == "cut":
                print("cut", cut_connections(), flush=True)
            else:
                die()

    def is_due(self, phase: str, number: int) -> bool:
        """Whether the fault is here and now; once."""
        here = (ME, phase, number) == (self.fault.who, self.fault.phase, self.fault.number)
        due = self.has_begun and here and not self.is_injected
        self.is_injected |= due
        return due

    def at_moments(self) -> None:
        """Dies within the step that begins, when the core has come to a moment of it."""
        if self.fault.before == ME and self.step == self.fault.number:
            print("injected before", self.fault, flush=True)
            die()
        for phase in moments.PHASES:
            if self.is_due(phase, self.step):
                print("injected", self.fault, flush=True)
                has_come = moments.moment(phase, self.fault.method, self.model.optimizer)
                self.watcher = moments.call_when(has_come, die)

    def trap(self, phase: str, value: Any) -> Any:
        """The value, after a look whether the process dies here, in a graph."""

        def look() -> Any:
            self.at(phase, self.step)
            return np.int64(0)

        with tf.control_dependencies([value]):
            looked = tf.numpy_function(look, [], tf.int64)
        with tf.control_dependencies([looked]):
            return tf.identity(value)

    def on_train_begin(self, logs: Any = None) -> None:
        self.has_begun = True
        self.at("fit begin", 0)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch
        self.at("epoch begin", epoch)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.step += 1
        self.at("step begin", self.step)
        self.at_moments()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.watcher is not None:  # it must not come to the next step
            self.watcher.join(60)
        self.at("step end", self.step)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.at("validation", self.epoch)

    def on_test_end(self, logs: Any = None) -> None:
        self.at("validation end", self.epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.at("epoch end", epoch)

    def on_train_end(self, logs: Any = None) -> None:
        self.at("fit end", 0)

    def on_membership_change(self) -> None:
        self.heard += 1


@keras.utils.register_keras_serializable("faults")
class Trapped(keras.layers.Layer):
    """The identity, with traps around it."""

    injector: Injector | None = None

    def call(self, x: Any) -> Any:
        injector = self.injector
        if injector is None:
            return x
        injector.at("traced", 0)

        @tf.custom_gradient
        def trapped(x: Any) -> Any:
            return injector.trap("forward", x), lambda upstream: injector.trap("backward", upstream)

        return trapped(x)

    def get_config(self) -> dict[str, Any]:
        if self.injector is not None:
            self.injector.at("checkpoint", self.injector.epoch)
        config: dict[str, Any] = super().get_config()
        return config


@keras.utils.register_keras_serializable("faults")
class TrappedSGD(keras.optimizers.SGD):
    """SGD that looks before it changes the first variable, and before the third."""

    injector: Injector | None = None
    calls = 0

    def update_step(self, gradient: Any, variable: Any, *args: Any) -> Any:
        phase = {0: "delivered", 2: "applied in part"}.get(self.calls % VARIABLES)
        self.calls += 1
        if self.injector is not None and phase is not None:
            gradient = self.injector.trap(phase, gradient)
        return super().update_step(gradient, variable, *args)


class TrappedError(keras.metrics.MeanAbsoluteError):
    """A metric that looks before it is updated."""

    injector: Injector | None = None

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        if self.injector is not None:
            y_pred = self.injector.trap("metrics", tf.convert_to_tensor(y_pred))
        return super().update_state(y_true, y_pred, sample_weight)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def get_notice() -> None:
    """Sends SIGTERM to this process, and waits until it knows that it may leave."""
    os.kill(os.getpid(), signal.SIGTERM)
    until_noticed("_may_leave")


def terminate_runner() -> None:
    """Sends SIGTERM to the launcher of this host, and waits until this peer knows."""
    job = Path(os.environ["KUNGFU_CONTROL"]).with_name("job.json")
    os.kill(json.loads(job.read_text())["pid"], signal.SIGTERM)
    until_noticed("_is_told")


def until_noticed(what: str) -> None:
    until(lambda: getattr(notice._current, what))


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def data_of(peer: int) -> tuple[Any, Any]:
    """The samples of a peer."""
    x = np.random.default_rng(peer).normal(size=(SAMPLES, 6))
    return x, x.sum(axis=1, keepdims=True)


def model_of(injector: Injector | None, hidden: int = 3) -> Any:
    """A model with traps and a wrapped optimizer, or a plain one."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(8, activation="tanh") for _ in range(hidden)]
    trapped, optimizer, error = Trapped(), TrappedSGD(0.05, momentum=0.9), TrappedError(name="mae")
    trapped.injector = optimizer.injector = error.injector = injector
    model = keras.Sequential(
        [keras.Input([6]), layers[0], trapped, *layers[1:], keras.layers.Dense(1)]
    )
    if injector is not None:
        optimizer = wrapped(optimizer, injector.fault.method)
    model.compile(optimizer, "mse", metrics=[error])
    return model


def wrapped(optimizer: Any, method: str) -> Any:
    if method == "S-SGD":
        return kf.optimizers.SynchronousSGDOptimizer(optimizer, bucket_bytes=200)
    if method == "pairs":
        return wrap(optimizer, PairsInStep)
    if method == "noise scale":
        return kf.optimizers.MonitorGradientNoiseScaleOptimizer(optimizer, BATCH)
    if method == "variance":
        return kf.optimizers.MonitorGradientVarianceOptimizer(optimizer)
    if method == "AdaptiveSGD":
        return kf.optimizers.AdaptiveSGDOptimizer(optimizer, CHANGE_STEP, alpha=ALPHA)
    if method == "LocalSGD":
        return kf.optimizers.LocalSGDOptimizer(optimizer, every=EVERY)
    if method in ("DiLoCo", "Streaming"):
        outer = keras.optimizers.SGD(OUTER_RATE, momentum=MOMENTUM, nesterov=True)
        later = {"overlap": OVERLAP, "merge": MERGE} if method == "Streaming" else {}
        return kf.optimizers.DiLoCoOptimizer(optimizer, outer=outer, every=EVERY, **later)
    return kf.optimizers.SynchronousAveragingOptimizer(optimizer, alpha=ALPHA)


class PairsInStep(PairAveraging):
    """Pair averaging with the next rank, in step, so that the weights depend on the data alone.

    All have asked for the models of a step before one goes on, and have them before one publishes
    the next. Who awaits none goes on without that of a lost peer.
    """

    def __init__(self) -> None:
        super().__init__(partner=self.next_rank)

    def next_rank(self, step: Any) -> Any:
        """Of the peers that have published their models of this step."""
        with tf.control_dependencies([meeting("published", [step])]):
            rank, size = kf.ops.peer_info()
        return (rank + 1) % size

    def before_update(self, variables: Any) -> Any:
        assigned = super().before_update(variables)
        self._have_taken = meeting("taken", assigned)
        return assigned

    def after_update(self, variables: Any) -> Any:
        with tf.control_dependencies([self._have_taken]):
            requests = super().after_update(variables)
        return [meeting("asked", requests)]


def meeting(name: str, after: Any) -> Any:
    """All peers meet when each has done that."""
    with tf.control_dependencies(list(after)):
        return kf.ops.barrier(name=name)
