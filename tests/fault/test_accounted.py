"""The account of samples by which random_faults.py judges a job."""

from __future__ import annotations

import random

import pytest

from tests.fault import accounted


def test_each_sample_is_told_once_whoever_comes_and_goes() -> None:
    dice = random.Random(3)
    account, members, told = accounted.START, [0], list[int]()
    for step in range(1, 500):
        dealt = accounted.deal(account)
        if dice.random() < 0.3:
            members.append(step)
        if len(members) > 1 and dice.random() < 0.3:
            members.remove(dice.choice(members))
        said = {member: dealt.get(member, []) for member in members}
        told += [sample for samples in said.values() for sample in samples]
        account = accounted.after(account, said)
    assert sorted([*told, *account["missed"]]) == list(range(account["next"]))
    assert account["told"] == len(told) > 1000


@pytest.mark.parametrize("said", [{1: [0, 1], 2: [3, 2]}, {1: [0, 1], 3: [2, 3]}, {1: [0]}])
def test_samples_of_others_are_no_part_of_a_step(said: dict[int, list[int]]) -> None:
    account = accounted.after(accounted.START, {1: [], 2: []})
    with pytest.raises(AssertionError):
        accounted.after(account, said)
