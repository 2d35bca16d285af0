"""What is no group is refused where it is given."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf

import kungfu_tf as kf


@pytest.mark.parametrize(
    "use",
    [
        lambda given: kf.ops.all_reduce(tf.ones([]), group=given),
        lambda given: kf.optimizers.SynchronousSGDOptimizer(
            tf.keras.optimizers.SGD(0.1), group=given
        ),
        lambda given: kf.DistributedGradientTape(tf.GradientTape(), group=given),
    ],
    ids=["operation", "optimizer", "tape"],
)
def test_a_list_of_ranks_is_no_group(use: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match=r"kungfu_tf\.Group, .* or None, not \[0\]"):
        use([0])
