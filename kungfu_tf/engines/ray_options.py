"""Resources, as Ray's options and as words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMED = {"CPU": "num_cpus", "GPU": "num_gpus"}


def options_of(resources: Mapping[str, float]) -> dict[str, Any]:
    """The options of an actor or a task that needs these."""
    named = {option: resources.get(name, 0) for name, option in _NAMED.items()}
    others = {name: amount for name, amount in resources.items() if name not in _NAMED}
    return {**named, "resources": others}


def each(resources: Mapping[str, float]) -> str:
    """The resources in words: "CPU: 1, GPU: 1"."""
    return ", ".join(f"{name}: {amount:g}" for name, amount in sorted(resources.items()))
