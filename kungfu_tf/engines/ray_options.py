"""Resources, as Ray's options and as words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMED = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
_NONE = {"num_cpus": 0, "num_gpus": 0}


def options_of(resources: Mapping[str, float]) -> dict[str, Any]:
    """The options of an actor or a task that needs these."""
    named = {_NAMED[name]: amount for name, amount in resources.items() if name in _NAMED}
    others = {name: amount for name, amount in resources.items() if name not in _NAMED}
    return {**_NONE, **named, "resources": others}


def each(resources: Mapping[str, float]) -> str:
    """The resources in words: "CPU: 1, GPU: 1"."""
    return ", ".join(f"{name}: {amount:g}" for name, amount in sorted(resources.items()))
