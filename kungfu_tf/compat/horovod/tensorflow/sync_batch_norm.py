"""Batch normalization by the samples of all processes."""

from __future__ import annotations

from typing import Any

import kungfu_tf as kf

__all__ = ["SyncBatchNormalization"]


def SyncBatchNormalization(fused: bool = False, **kwargs: Any) -> Any:  # noqa: N802 (Horovod's)
    """Keras' BatchNormalization by the samples of all processes.

    Raises:
        ValueError: If it is to be fused.
    """
    if fused in (True, None):
        raise ValueError("SyncBatchNormalization has no fused form: leave fused away")
    kwargs.setdefault("name", "sync_batch_normalization")
    return kf.layers.SyncBatchNormalization(**kwargs)
