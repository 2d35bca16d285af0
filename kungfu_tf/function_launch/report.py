"""The runner's report to the caller when the job has ended."""

from __future__ import annotations

import dataclasses
import json

from kungfu_tf.launcher.output.outcome import Outcome


@dataclasses.dataclass(frozen=True)
class Report:
    """How a job ended.

    Attributes:
        error: Why it could not be started, if so.
        code: The launcher's exit code.
        outcomes: How each process ended, by rank.
        first: The rank that failed first, if one did.
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
