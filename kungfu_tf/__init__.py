"""Adaptive, decentralised data-parallel training for TensorFlow and Keras.

```python
import kungfu_tf as kf

dataset = kf.data.shard(dataset)
model.compile(optimizer=kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)), ...)
model.fit(dataset.batch(128 // kf.size()))
```

Run it with `kungfu-run -np 4 python train.py`. Without `kungfu-run` it runs as a single process.

Importing it opens no socket and starts no thread: the peer starts, and TensorFlow is imported, when
they are needed. If `kungfu-run` has started several peers on a host, it also places TensorFlow's
large tensors where the peers can reduce them without copies. Import it before TensorFlow makes its
first tensor.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kungfu_tf import errors
from kungfu_tf._version import __version__ as __version__
from kungfu_tf.membership.progress import init_progress
from kungfu_tf.native import sharing
from kungfu_tf.peer import (
    all_reduce_int_max,
    barrier,
    detached,
    host_count,
    init,
    is_root,
    joining,
    local_rank,
    local_size,
    membership_version,
    propose_new_size,
    rank,
    resize,
    run_on_root,
    shutdown,
    size,
    uid,
)
from kungfu_tf.upstream import activation
from kungfu_tf.verification import silence

if TYPE_CHECKING:
    from kungfu_tf import (
        callbacks,
        compression,
        data,
        elastic,
        hooks,
        initializer,
        layers,
        ops,
        optimizers,
        policy,
        topology,
        variables,
    )
    from kungfu_tf import ray as ray
    from kungfu_tf import spark as spark
    from kungfu_tf.exchange.tape import DistributedGradientTape
    from kungfu_tf.function_launch import launch
    from kungfu_tf.groups import Group
    from kungfu_tf.monitor.monitor import Monitor
    from kungfu_tf.monitor.statistics import (
        calc_stats,
        check_interference,
        log_stats,
        print_strategy_stats,
    )
    from kungfu_tf.monitor.timeline import start_timeline, stop_timeline
    from kungfu_tf.replicas.average import average_variables
    from kungfu_tf.replicas.objects import all_gather_object, broadcast_object
    from kungfu_tf.verification.loop import verify

__all__ = [
    "DistributedGradientTape",
    "Group",
    "Monitor",
    "all_gather_object",
    "all_reduce_int_max",
    "average_variables",
    "barrier",
    "broadcast_object",
    "calc_stats",
    "callbacks",
    "check_interference",
    "compression",
    "data",
    "detached",
    "elastic",
    "errors",
    "hooks",
    "host_count",
    "init",
    "init_progress",
    "initializer",
    "is_root",
    "joining",
    "launch",
    "layers",
    "local_rank",
    "local_size",
    "log_stats",
    "membership_version",
    "ops",
    "optimizers",
    "policy",
    "print_strategy_stats",
    "propose_new_size",
    "rank",
    "resize",
    "run_on_root",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "topology",
    "uid",
    "variables",
    "verify",
]

# Modules that `from kungfu_tf import *` leaves out: users import packages of these names.
_NAMESAKES = ("ray", "spark")

# Loaded at first use: modules, and these names of modules.
_MODULE_OF = {
    "DistributedGradientTape": "exchange.tape",
    "Group": "groups",
    "Monitor": "monitor.monitor",
    "all_gather_object": "replicas.objects",
    "average_variables": "replicas.average",
    "broadcast_object": "replicas.objects",
    "calc_stats": "monitor.statistics",
    "check_interference": "monitor.statistics",
    "launch": "function_launch",
    "log_stats": "monitor.statistics",
    "print_strategy_stats": "monitor.statistics",
    "start_timeline": "monitor.timeline",
    "stop_timeline": "monitor.timeline",
    "verify": "verification.loop",
}


def __getattr__(name: str) -> Any:
    if name not in (*__all__, *_NAMESAKES):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    module = importlib.import_module(f"{__name__}.{_MODULE_OF.get(name, name)}")
    value = getattr(module, name) if name in _MODULE_OF else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_NAMESAKES, "__version__"])


def _use_keras() -> None:
    from kungfu_tf.keras import patches
    from kungfu_tf.keras.elastic import training
    from kungfu_tf.keras.fit import changing_peers

    patches.install()
    changing_peers.register(training.fit)


def _use_sessions(*, with_estimators: bool) -> None:
    from kungfu_tf.tf1 import patches

    patches.install(with_estimators=with_estimators)


activation.register(activation.KERAS, _use_keras)
activation.register(activation.SESSIONS, lambda: _use_sessions(with_estimators=False))
activation.register(activation.ESTIMATORS, lambda: _use_sessions(with_estimators=True))
sharing.begin()
silence.begin()
