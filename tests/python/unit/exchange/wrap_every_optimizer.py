"""A plugin of pytest for Keras' own tests: every optimizer that they make is wrapped.

KUNGFU_TEST_WRAP says which of nested optimizers: "parts", each when it is made, or "whole", the
outermost. When all tests are done, what has happened is written to the file KUNGFU_TEST_REPORT.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from kungfu_tf.exchange.keras3 import Keras3Optimizer
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.optimizers.sync_sgd import SynchronousSGD
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.patches import replace

WHOLE = os.environ["KUNGFU_TEST_WRAP"] == "whole"

report: dict[str, Any] = {"made": 0, "updates": 0, "exchanges": 0, "by plain optimizers": []}
in_wrapped = 0


def wrap(optimizer: Any) -> None:
    """As a program does that has just made `optimizer`."""
    report["made"] += 1
    if WHOLE:
        for part in generations.parts_of(optimizer):
            if isinstance(part, Keras3Optimizer):
                part.__class__ = type(part).__bases__[1]
    if not any(isinstance(part, Keras3Optimizer) for part in generations.parts_of(optimizer)):
        SynchronousSGDOptimizer(optimizer)


def wrap_all_of(cls: type) -> None:
    """Those of `cls`, and of the classes derived from it."""
    if "__init__" in vars(cls):
        original = cls.__init__

        @functools.wraps(original)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if type(self).__init__ is init:  # not for the part that a base class does
                wrap(self)

        cls.__init__ = init
    for derived in cls.__subclasses__():
        wrap_all_of(derived)


def apply(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`apply` of one that is wrapped."""
    global in_wrapped
    in_wrapped += 1
    try:
        return original(*args, **kwargs)
    finally:
        in_wrapped -= 1


def update(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What every `apply` comes to."""
    report["updates"] += 1
    if not in_wrapped:
        report["by plain optimizers"].append(os.environ["PYTEST_CURRENT_TEST"])
    return original(*args, **kwargs)


def exchange(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The gradients of the algorithm."""
    report["exchanges"] += 1
    return original(*args, **kwargs)


def pytest_collection_finish() -> None:
    """All classes exist, the tests' own as well."""
    wrap_all_of(keras.optimizers.Optimizer)
    base = next(c for c in keras.optimizers.Optimizer.__mro__ if c.__name__ == "BaseOptimizer")
    replace(base, "apply", update)
    replace(Keras3Optimizer, "apply", apply)
    replace(SynchronousSGD, "gradients", exchange)


def pytest_sessionfinish() -> None:
    Path(os.environ["KUNGFU_TEST_REPORT"]).write_text(json.dumps(report))
