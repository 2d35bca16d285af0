"""Pictures of topologies: ranks on a circle, and arrows to those that take from them."""

from __future__ import annotations

import html
import math

from kungfu_tf import topology
from kungfu_tf.topology import Topology

_SIZE = 8
_STEPS = 4  # of a cycle, at most
# The head of all arrows of the page.
_MARKER = (
    '<svg width="0" height="0" aria-hidden="true"><defs><marker id="taken" viewBox="0 0 8 8" '
    'refX="7" refY="4" markerWidth="5" markerHeight="5" orient="auto-start-reverse">'
    '<path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs></svg>'
)
_RADIUS, _DOT, _EDGE = 46, 8, 56  # pixels; the last one is half a picture's edge

SHOWN = [
    topology.base_graph(),
    topology.one_peer_exponential(),
    topology.exponential(),
    topology.symmetric_exponential(),
    topology.hypercube(),
    topology.ring(),
    topology.ring(directed=True),
    topology.star(),
    topology.grid(),
    topology.grid(torus=True),
    topology.fully_connected(),
    topology.equi_static(2),
    topology.equi_dynamic(seed=0),
    topology.random_matching(seed=0),
    topology.one_peer(topology.ring()),
    topology.hierarchical(topology.ring(), 4),
]


def table() -> str:
    """Each topology with the pictures of its first steps, as a table of Markdown."""
    rows = [f"| topology of {_SIZE} peers | steps of its cycle {_MARKER} |", "|---|---|"]
    for shown in SHOWN:
        length = shown.length(_SIZE)
        pictures = "".join(picture(shown, step) for step in range(min(length, _STEPS)))
        more = f" and {length - _STEPS} more" if length > _STEPS else ""
        rows.append(f"| `{shown}` | {pictures}{more} |")
    return "\n".join(rows)


def picture(shown: Topology, step: int, size: int = _SIZE) -> str:
    """One step, as SVG, for a page that has the table."""
    matrix = shown.at(step, size)
    arrows = [
        _arrow(source, target, size, both_ways=bool(matrix[source, target]))
        for source in range(size)
        for target in range(size)
        if source != target and matrix[target, source]
        if source < target or not matrix[source, target]
    ]
    dots = [_dot(rank, size) for rank in range(size)]
    name = html.escape(f"{shown}, step {step}", quote=True)
    return (
        f'<svg class="topology" viewBox="0 0 {2 * _EDGE} {2 * _EDGE}" role="img" '
        f'aria-label="{name}">{"".join(arrows)}{"".join(dots)}</svg>'
    )


def _place(rank: int, size: int) -> tuple[float, float]:
    """Rank 0 is at the top, and the others follow clockwise."""
    angle = 2 * math.pi * rank / size
    return _EDGE + _RADIUS * math.sin(angle), _EDGE - _RADIUS * math.cos(angle)


def _arrow(source: int, target: int, size: int, *, both_ways: bool) -> str:
    """From the edge of one dot to that of the other."""
    (x, y), (to_x, to_y) = _place(source, size), _place(target, size)
    part = (_DOT + 1) / math.hypot(to_x - x, to_y - y)
    dx, dy = part * (to_x - x), part * (to_y - y)
    begins = ' marker-start="url(#taken)"' if both_ways else ""
    return (
        f'<path d="M{x + dx:.1f} {y + dy:.1f}L{to_x - dx:.1f} {to_y - dy:.1f}" '
        f'stroke="currentColor" stroke-opacity=".6"{begins} marker-end="url(#taken)"/>'
    )


def _dot(rank: int, size: int) -> str:
    x, y = _place(rank, size)
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_DOT}"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}">{rank}</text>'
    )
