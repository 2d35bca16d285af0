"""What each peer sends in a step by each codec, beside the formula.

Writes `results/compression.md`. Ends with code 1 where a count is more than 3 % off its formula.

    python benchmarks/compression.py [--results DIR]
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

import report
from measure import reported

PROGRAM = Path(__file__).parent / "programs" / "compression.py"
PEERS, SECONDS, MOST_OFF = 4, 400, 0.03


class Row(NamedTuple):
    """Bytes of a peer and step."""

    method: str
    codec: str
    sent: float
    formula: float

    @property
    def off(self) -> float:
        return self.sent / self.formula - 1


def measured() -> list[Row]:
    os.environ["KUNGFU_TRANSPORT"] = "tcp"  # over sockets, whose bytes the core counts
    lines = reported(PROGRAM, options=["-np", str(PEERS), "-q"], seconds=SECONDS)
    return [Row(**json.loads(line)) for line in lines]


def table(rows: list[Row]) -> list[str]:
    """Markdown."""
    plain = rows[0].sent
    return [
        f"{PEERS} peers, three matrices of 512 × 512 and three vectors, 3 MiB of float32. Bytes "
        "are those that a peer sends in a step, as the core counts them, headers included: the "
        "mean of all peers and of 10 steps. The formula is 2·(p − 1)/p times the bytes of an "
        "exchange.",
        "",
        "| | codec | bytes sent | of 1 | formula | off by |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row.method} | `{row.codec}` | {row.sent:,.0f} | 1/{plain / row.sent:.3g} | "
            f"{row.formula:,.0f} | {100 * row.off:+.2f} % |"
            for row in rows
        ),
    ]


def main() -> int:
    options = report.parser(__doc__).parse_args()
    rows = measured()
    title = "What each peer sends in a step by each codec"
    report.write(options.results / "compression", title, table(rows))
    return int(any(abs(row.off) > MOST_OFF for row in rows))


if __name__ == "__main__":
    sys.exit(main())
