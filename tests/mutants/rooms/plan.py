"""Faults in ops/plan/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="last-chunk-ends-early",
        file="ops/plan/partition.cc",
        text="chunks.back().end = count;",
        fault="",
        why="The elements behind the last whole cache line are not reduced.",
        test="plan_test Chunks.",
    ),
    Mutant(
        name="even-parts-shift",
        file="ops/plan/partition.cc",
        text="part * size + std::min(part, longer)",
        fault="part * size + std::min(part + 1, longer)",
        why="Rows of a reduce_scatter go to the rank before.",
        test="plan_test EvenPart.",
    ),
    Mutant(
        name="part-of-a-graph-forgets",
        file="ops/plan/graph.cc",
        text="Node{Predecessors(one), {}}",
        fault="Node{}",
        why="A ring of float16 takes the sums of others for single contributions.",
        test="plan_test Graph.",
    ),
    Mutant(
        name="ring-starts-at-its-root",
        file="ops/plan/strategy.cc",
        text="Chain(size, (root + 1) % size)",
        fault="Chain(size, root)",
        why="The ring's reduction does not end where its broadcast begins.",
        test="plan_test Strategy.",
    ),
    Mutant(
        name="edge-to-lower-ranks-is-missing",
        file="ops/plan/topology.cc",
        text="for (size_t step = 1; step < hosts; ++step) graph.AddEdge(root,",
        fault="for (size_t step = 1; step < hosts - first; ++step) graph.AddEdge(root,",
        why="HIERARCHY leaves hosts out.",
        test="plan_test Strategy.",
    ),
    Mutant(
        name="tree-is-no-heap",
        file="ops/plan/topology.cc",
        text="return (place - 1) / 2;",
        fault="return place / 2;",
        why="The binary tree has another shape, and its root one child.",
        test="plan_test Topology.",
    ),
    Mutant(
        name="local-rank-counts-itself",
        file="ops/plan/peer_list.cc",
        text="peers_.begin() + rank,",
        fault="peers_.begin() + rank + 1,",
        why="Each peer takes the GPU of the next one.",
        test="plan_test PeerList.",
    ),
    Mutant(
        name="sources-in-the-order-given",
        file="ops/plan/mixing.cc",
        text="  std::sort(sources.begin(), sources.end(), by_rank);\n",
        fault="",
        why="A source that is there twice is not seen, and sums depend on the order of a dict.",
        test="plan_test Mixing.",
    ),
]
