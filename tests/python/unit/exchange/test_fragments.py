"""When fragments meet, and what is in them."""

from __future__ import annotations

import pytest
import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.exchange.fragments import Fragments

NAMES = ["a/kernel", "a/bias", "b/kernel", "c/kernel", "c/bias", "d/kernel", "alone", "another"]


@pytest.mark.parametrize("every", range(1, 30))
def test_one_meeting_at_a_time(every: int) -> None:
    for count in range(1, every + 1):
        overlap = every // count - 1
        fragments = Fragments(every, count, overlap)
        begins = [fragments.begin(number) for number in range(count)]
        assert begins[0] == every and all(0 < begin <= every for begin in begins)
        assert begins[1:] == [number * every // count for number in range(1, count)]
        in_order = [0, *begins[1:], every]
        for number in range(count):
            assert in_order[number] <= fragments.end(number) < in_order[number + 1]
            assert fragments.end(number) == in_order[number] + overlap


def dealt(count: int) -> list[list[str]]:
    variables = [tf.Variable(0.0, name=name) for name in NAMES]
    parts = Fragments(100, count).dealt(variables)
    return [[v.name.split(":")[0] for v in part] for part in parts]


def test_layers_are_dealt_in_turn() -> None:
    assert dealt(1) == [NAMES]
    assert dealt(3) == [
        ["a/kernel", "a/bias", "d/kernel"],
        ["b/kernel", "alone"],
        ["c/kernel", "c/bias", "another"],
    ]
    assert len(dealt(6)) == 6


def test_fewer_layers_than_fragments() -> None:
    with pytest.raises(errors.UnimplementedError, match=r"fragments=7 is more .* 6:"):
        dealt(7)
