"""Adaptive, decentralised data-parallel training for TensorFlow and Keras.

```python
import kungfu_tf as kf

dataset = kf.data.shard(dataset)
model.compile(optimizer=kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)), ...)
model.fit(dataset, callbacks=[kf.callbacks.BroadcastGlobalVariablesCallback()])
```

Run it with `kungfu-run -np 4 python train.py`. Without `kungfu-run` it runs as one process of one.

Importing does nothing: the peer starts, and TensorFlow is imported, when something needs it.
"""

from __future__ import annotations

import importlib
from typing import Any

from kungfu_tf._version import __version__ as __version__

_MODULES = (
    "callbacks",
    "data",
    "errors",
    "initializer",
    "layers",
    "ops",
    "optimizers",
)

# The public name, where it lives, and what it is called there.
_NAMES = {
    "DistributedGradientTape": ("optimizers.tape", "DistributedGradientTape"),
    "barrier": ("peer", "barrier"),
    "current_cluster_size": ("peer", "size"),
    "current_local_rank": ("peer", "local_rank"),
    "current_local_size": ("peer", "local_size"),
    "current_rank": ("peer", "rank"),
    "epoch": ("peer", "epoch"),
    "host_count": ("peer", "host_count"),
    "init": ("peer", "init"),
    "is_root": ("peer", "is_root"),
    "launch": ("launching", "launch"),
    "local_rank": ("peer", "local_rank"),
    "local_size": ("peer", "local_size"),
    "rank": ("peer", "rank"),
    "run_barrier": ("peer", "barrier"),
    "run_on_root": ("peer", "run_on_root"),
    "shutdown": ("peer", "shutdown"),
    "size": ("peer", "size"),
    "uid": ("peer", "uid"),
}

__all__ = [*_MODULES, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        module, attribute = _NAMES[name]
        value = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
        globals()[name] = value
        return value
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
