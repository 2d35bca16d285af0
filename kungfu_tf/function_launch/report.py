"""The runner's report to the caller when the job has ended."""

from __future__ import annotations

import dataclasses
import json

from kungfu_tf.launcher.output.outcome import Outcome


@dataclasses.dataclass(frozen=True)
class Report:
    """How a job ended.

    `error`: why it could not be started. `code`: the launcher's exit code. `outcomes`: by rank.
    `first`: the rank that failed first, if one has.
    """

    error: str | None = None
    code: int = 0
    outcomes: tuple[Outcome, ...] = ()
    first: int | None = None

    def to_json(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Report:
        fields = json.loads(data)
        return cls(**{**fields, "outcomes": tuple(Outcome(**o) for o in fields["outcomes"])})
