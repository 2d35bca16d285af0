"""The fragments of a model that meet at different steps of a round."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from kungfu_tf import errors
from kungfu_tf.upstream import generations


@dataclasses.dataclass(frozen=True)
class Fragments:
    """When the fragments of a model meet.

    A round has `every` steps, and begins with the meeting of fragment 0. Fragment f meets after
    f·every/count further ones, rounded down.

    Attributes:
        every: The number of steps between two meetings of a fragment.
        count: The number of fragments.
        overlap: The number of steps from a meeting to its end, less than those to the next one.
    """

    every: int
    count: int = 1
    overlap: int = 0

    def begin(self, number: int) -> int:
        """The steps of the round at which this fragment meets: at its end, for fragment 0."""
        return number * self.every // self.count or self.every

    def end(self, number: int) -> int:
        """The steps of the round at which this fragment's meeting ends."""
        return self.begin(number) % self.every + self.overlap

    def dealt(self, variables: Sequence[Any]) -> list[list[Any]]:
        """The variables of each fragment. The layers are dealt in turn.

        Args:
            variables: In the order of their layers. Those whose names differ in the last part only
                are of one layer.

        Raises:
            UnimplementedError: If there are fewer layers than fragments.
        """
        layers: dict[str, list[Any]] = {}
        for number, variable in enumerate(variables):
            *path, _ = generations.name_of(variable).split(":")[0].split("/")
            layers.setdefault("/".join(path) or str(number), []).append(variable)
        if len(layers) < self.count:
            raise errors.UnimplementedError(
                f"fragments={self.count} is more than the layers of the model, {len(layers)}: a "
                "layer is in one fragment as a whole"
            )
        parts = list(layers.values())
        strided = (parts[number :: self.count] for number in range(self.count))
        return [list(itertools.chain.from_iterable(part)) for part in strided]
