"""How many operations `fit` has in a step between meetings, for all kinds of data.

Writes `results/meetings.md`. Ends with code 1 where a method that meets sometimes has any.

    python benchmarks/meetings.py [--results DIR]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import report
from measure import reported

PROGRAM = Path(__file__).parent / "programs" / "meetings.py"
PEERS, SECONDS = 2, 800
PLAIN = "S-SGD"


def main() -> int:
    options = report.parser(__doc__ or "").parse_args()
    lines = reported(PROGRAM, options=["-np", str(PEERS), "-q"], seconds=SECONDS)
    found = [json.loads(line) for line in lines]
    by_case = {(one["method"], one["data"], one["beside"]): one["operations"] for one in found}
    methods, data, beside = (list(dict.fromkeys(column)) for column in zip(*by_case, strict=True))
    body = [
        f"`fit` of {PEERS} peers, a model of two variables. A step's operations are those that "
        "a call of `fit` with more steps has more. Methods that meet sometimes meet after 1000 "
        "steps, so these are between meetings.",
        "",
        "| data | beside | " + " | ".join(methods) + " |",
        "|---|---|" + "---|" * len(methods),
    ]
    for kind in data:
        for what in beside:
            cells = [f"{by_case[method, kind, what]:g}" for method in methods]
            body.append(f"| {kind} | {what} | {' | '.join(cells)} |")
    report.write(options.results / "meetings", "Operations in a step of `fit`", body)
    return int(any(n for (method, *_), n in by_case.items() if method != PLAIN))


if __name__ == "__main__":
    sys.exit(main())
