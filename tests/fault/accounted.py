"""Which samples have been trained on, as all peers of a training know.

Each of 0, 1, 2, … has been told once, or waits to be dealt again, or is beyond the last one dealt.
"""

from __future__ import annotations

from typing import Any

BATCH = 2
START: dict[str, Any] = {"members": [], "told": 0, "missed": [], "next": 0}


def deal(account: dict[str, Any]) -> dict[Any, list[int]]:
    """The samples of the next step, for each that was in the step before."""
    members = account["members"]
    again = account["missed"][: BATCH * len(members)]
    fresh = range(account["next"], account["next"] + BATCH * len(members) - len(again))
    samples = [*again, *fresh]
    return {who: samples[i * BATCH : (i + 1) * BATCH] for i, who in enumerate(members)}


def after(account: dict[str, Any], told: dict[Any, list[int]]) -> dict[str, Any]:
    """The account after a step in which these have told what they were dealt.

    What a lost peer was dealt and did not tell is dealt again.
    """
    dealt = deal(account)
    assert all(samples == dealt.get(who, []) for who, samples in told.items()), (dealt, told)
    last = max((n for samples in dealt.values() for n in samples), default=-1)
    lost = [n for who, samples in dealt.items() if who not in told for n in samples]
    new = {
        "members": list(told),
        "told": account["told"] + sum(map(len, told.values())),
        "missed": [*account["missed"][BATCH * len(dealt) :], *lost],
        "next": max(account["next"], last + 1),
    }
    assert new["told"] + len(new["missed"]) == new["next"], new
    return new
