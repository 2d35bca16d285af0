"""`kungfu_tf.ray.KungfuConfig`, as users see it."""

from __future__ import annotations

from typing import Any

from kungfu_tf.engines import missing


def KungfuConfig() -> Any:  # noqa: N802 (as the configurations of Ray)
    """Makes the workers of a trainer of Ray Train the peers of one job.

    Each worker has its rank of Ray, and its part of the trainer's datasets. The number of workers
    stays the same while they train. If one fails, Ray starts all anew, as its `FailureConfig` says.

    Returns:
        A `ray.train.backend.BackendConfig`, for `backend_config=` of a
        `ray.train.v2.api.data_parallel_trainer.DataParallelTrainer`.

    Raises:
        ImportError: If Ray Train is not installed: `pip install "ray[train]"`.

    Example:

    ```python
    trainer = DataParallelTrainer(
        train,
        backend_config=kungfu_tf.ray.KungfuConfig(),
        scaling_config=ray.train.ScalingConfig(num_workers=4),
    )
    trainer.fit()
    ```
    """
    missing.needed("ray", "kungfu_tf.ray.KungfuConfig")
    from kungfu_tf.engines.ray_train import Config

    return Config()
