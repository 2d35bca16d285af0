"""The steps that thin_link.py and thin_link_horovod.py time: what is exchanged, and what waits."""

from __future__ import annotations

from collections.abc import Sequence

import gradient_sets

# The seconds of a step that computes, as an accelerator does, by the sections of tables.
WAITS = {"exchange": 0.0, "overlap": 0.1, "scaling": 0.45}
SIDES = {"12 MiB": 1024, "3 MiB": 512}  # of three matrices, beside three vectors


def shapes_of(size: str) -> list[Sequence[int]]:
    """Of the gradients: float32, so many bytes; or those of "ResNet-50"."""
    if size == "ResNet-50":
        return list(gradient_sets.resnet50())
    side = SIDES[size]
    return [(side, side), (side,)] * 3
