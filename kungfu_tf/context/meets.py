"""How often the peers of a distributed method meet."""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Meets(enum.Enum):
    """How often the peers that train a model meet, which is the same on all of them.

    Attributes:
        EVERY_STEP: In every step.
        SOMETIMES: After some steps, which a `Schedule` names. Between them a peer says nothing.
        NEVER: At no step. Each peer takes as many steps as it has batches.
    """

    EVERY_STEP = "in every step"
    SOMETIMES = "after some steps"
    NEVER = "never"

    @classmethod
    def of_all(cls, kinds: Iterable[Meets]) -> Meets:
        """How often peers meet that use methods of all these kinds."""
        given = set(kinds)
        if cls.NEVER in given:
            return cls.NEVER
        return cls.SOMETIMES if given == {cls.SOMETIMES} else cls.EVERY_STEP
