"""`python -m kungfu_tf.topology base_graph 6`: the matrices of a topology, and what it is like."""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Sequence

import numpy as np

from kungfu_tf import errors, topology

_FAMILIES = {
    family.__name__: family
    for family in (
        topology.base_graph,
        topology.equi_dynamic,
        topology.equi_static,
        topology.exponential,
        topology.fully_connected,
        topology.grid,
        topology.hypercube,
        topology.one_peer_exponential,
        topology.random_matching,
        topology.ring,
        topology.star,
        topology.symmetric_exponential,
    )
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="python -m kungfu_tf.topology", description="Prints what a topology is like."
    )
    parser.add_argument("family", choices=sorted(_FAMILIES))
    parser.add_argument("size", type=int, help="the number of peers")
    parser.add_argument("options", nargs="*", metavar="NAME=VALUE", help="e.g. degree=2")
    given = parser.parse_args(arguments)
    try:
        options = {name: ast.literal_eval(value) for name, value in map(_pair, given.options)}
        text = describe(_FAMILIES[given.family](**options), given.size)
    except (errors.InvalidArgumentError, SyntaxError, TypeError, ValueError) as error:
        parser.error(str(error))
    print(text)
    return 0


def describe(graph: topology.Topology, size: int) -> str:
    """Its matrices for a number of peers, and its properties."""
    steps = graph.length(size)
    lines = [f"{graph} of {size} peers: {steps} {'step' if steps == 1 else 'steps'} in a cycle"]
    with np.printoptions(precision=3, suppress=True, threshold=sys.maxsize, linewidth=sys.maxsize):
        for step, matrix in enumerate(graph.matrices(size)):
            lines += [f"step {step}", str(matrix)]
    exact = graph.exact_steps(size)
    return "\n".join(
        [
            *lines,
            f"degree             {graph.degree(size)}",
            f"doubly stochastic  {_answer(graph.is_doubly_stochastic(size))}",
            f"symmetric          {_answer(graph.is_symmetric(size))}",
            f"connected          {_answer(graph.is_connected(size))}",
            f"spectral gap       {graph.spectral_gap(size):.3f}",
            f"exact mean         {'never' if exact is None else f'after {exact} steps'}",
        ]
    )


def _answer(holds: bool) -> str:
    return "yes" if holds else "no"


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"'{text}' is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
