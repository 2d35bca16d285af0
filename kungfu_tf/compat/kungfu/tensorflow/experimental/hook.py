"""The second place of KungFu's hooks."""

from __future__ import annotations

from kungfu.tensorflow.hooks import ElasticHook, PolicyHook

__all__ = ["ElasticHook", "KungFuElasticTrainHook", "PolicyHook"]


def KungFuElasticTrainHook(  # noqa: N802 (KungFu's)
    schedule: str, max_step: int, model_dir: str | None = None, save_final: bool = False
) -> ElasticHook:
    """`ElasticHook`, by its older name. Estimators save their models themselves."""
    del model_dir, save_final
    return ElasticHook(schedule, max_step)
