"""Resources, as Ray's options."""

from __future__ import annotations

import pytest

from kungfu_tf.engines.ray_options import options_of

NONE = {"num_cpus": 0, "num_gpus": 0, "resources": {}}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, {}),
        ({"CPU": 4, "GPU": 0.5}, {"num_cpus": 4, "num_gpus": 0.5}),
        ({"memory": 1e9}, {"memory": 1e9}),
        ({"TPU": 2}, {"resources": {"TPU": 2}}),
    ],
)
def test_named_resources_are_options(
    resources: dict[str, float], expected: dict[str, object]
) -> None:
    assert options_of(resources) == NONE | expected
