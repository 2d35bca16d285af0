"""How many steps each topology takes to the mean, and which methods of neighbours keep a bias.

Writes `results/topologies.md`. Ends with code 1 where a count is not that of the theory, a mean of
`base_graph()` is not exact, or a bias is not as expected.

    python benchmarks/topologies.py [--results DIR]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import report
from measure import reported

PROGRAM = Path(__file__).parent / "programs" / "topologies.py"
PEERS, SIZES, SECONDS = 8, range(2, 10), 800
EXACT = 1e-15  # of a mean
NO_BIAS, SAME = 1e-8, 1e-3
Line = dict[str, Any]


def lines(section: str, peers: int = PEERS) -> list[Line]:
    options = ["-np", str(peers), "-q"]
    found = reported(PROGRAM, section, options=options, seconds=SECONDS)
    return [json.loads(line) for line in found]


def verdict(is_reached: bool) -> str:
    return "reached" if is_reached else "missed"


def steps(found: list[Line]) -> Iterator[str]:
    """Markdown."""
    yield "| topology | partners | spectral gap | steps by theory | steps | |"
    yield "|---|---|---|---|---|---|"
    for line in found:
        yield (
            f"| `{line['topology']}` | {line['degree']} | {line['gap']:.3f} | "
            f"{line['predicted']} | {line['steps']} | "
            f"{verdict(line['steps'] == line['predicted'])} |"
        )


def exact(found: list[Line]) -> Iterator[str]:
    """Markdown."""
    yield "| peers | " + " | ".join(str(line["size"]) for line in found) + " |"
    yield "|---" * (1 + len(found)) + "|"
    yield "| largest error | " + " | ".join(f"{line['error']:.0e}" for line in found) + " |"
    yield "| | " + " | ".join(verdict(line["error"] <= EXACT) for line in found) + " |"


def biases(found: list[Line]) -> Iterator[str]:
    """Markdown: a row for each method, whose lines follow one another by falling rates."""
    rates = list(dict.fromkeys(line["rate"] for line in found))
    yield "| method | " + " | ".join(f"rate {rate:g}/L" for rate in rates) + " | bias | |"
    yield "|---" * (3 + len(rates)) + "|"
    for method in dict.fromkeys(line["method"] for line in found):
        mine = [line for line in found if line["method"] == method]
        cells = [f"{line['error']:.1e} / {line['of_mean']:.1e}" for line in mine]
        kind, is_expected = kind_of(mine)
        yield f"| {method} | {' | '.join(cells)} | {kind} | {verdict(is_expected)} |"


def kind_of(mine: list[Line]) -> tuple[str, bool]:
    """What bias a method has, and whether it is that of the theory and of the simulation."""
    first, last = mine[0], mine[-1]
    if not first["method"].startswith(("atc", "awc", "quasi-global")):
        return "none", all(line["error"] <= NO_BIAS for line in mine)
    ratio = first["error"] / last["error"]
    is_same = all(abs(line["error"] / line["simulated"] - 1) <= SAME for line in mine)
    # Proportional to the rate, but for terms of the second order.
    fall = first["rate"] / last["rate"]
    return f"falls {ratio:.1f} ×", is_same and fall / 2 <= ratio <= fall * 1.5


def main() -> int:
    options = report.parser(__doc__ or "").parse_args()
    found = {section: lines(section) for section in ("steps", "bias")}
    means = [line for size in SIZES for line in lines("exact", size)]
    body = [
        f"{PEERS} peers, float64, operations and optimizers of kungfu_tf. Steps are those after "
        "which any values have a distance of at most 1e-10 of the first from their mean. By theory "
        "they follow from the spectral gap, or from the cycle where a mean is exact.",
        "",
        *steps(found["steps"]),
        "",
        "After a cycle of `base_graph()` the weights of all peers are 1/size:",
        "",
        *exact(means),
        "",
        "Least squares in 10 dimensions, of which each peer has other rows and another solution; "
        "3000 steps with exact gradients. The relative error of the peers' models, and of their "
        "mean. A method of neighbours without correction keeps a bias that falls with the rate: "
        f"by {0.5 / 0.1:g} × here, to first order. All errors are those of a simulation in NumPy.",
        "",
        *biases(found["bias"]),
    ]
    report.write(options.results / "topologies", "Topologies and methods of neighbours", body)
    return int(any("missed" in row for row in body))


if __name__ == "__main__":
    sys.exit(main())
