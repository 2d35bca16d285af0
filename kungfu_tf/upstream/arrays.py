"""Packs arrays as Keras' `fit` does: their structure, their dtypes, the weights of outputs."""

from __future__ import annotations

from typing import Any

from kungfu_tf.upstream.generations import Package


def as_fit_packs(package: Package, x: Any, y: Any, sample_weight: Any) -> Any:
    """All samples as one batch, in the form in which a train step of `fit` gets its batches.

    Keras' own adapter packs them: x alone is no tuple, a list becomes a tuple, and float64 becomes
    `floatx`.

    Args:
        package: The package of the model that is trained.
        x: Arrays or tensors, nested, as for `fit`. Their first dimension counts samples.
        y: The same for the targets, or None.
        sample_weight: The same for the weights, or None.

    Returns:
        A nest of tensors.
    """
    if package.generation == 3:
        adapter = package.private("trainers.data_adapters.array_data_adapter").ArrayDataAdapter
        dataset = adapter(x, y, sample_weight, batch_size=_EVERY).get_tf_dataset()
    else:
        adapter = package.private("engine.data_adapter").TensorLikeDataAdapter
        dataset = adapter(x, y, sample_weight, batch_size=_EVERY).get_dataset()
    return next(iter(dataset))


_EVERY = 2**31 - 1  # a batch size larger than any number of samples
