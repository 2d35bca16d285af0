// Generators of graphs. Trees are given by the parent of each rank; the root is its own. Edges lead from parent to
// child (broadcast direction). Children are in rank order, those behind their parent first: of 2 they are 3, 0 and 1.
// So among stars from several roots each rank is the first child of another one, then the second, and so on. The roots
// receive from one child after the other, and all ranks send all the time.

#pragma once

#include <vector>

#include "ops/base/status.h"
#include "ops/plan/graph.h"

namespace kungfu {

// parent[i] for each rank. An error unless every value is a rank and following parents from every rank ends at the
// one root.
StatusOr<Graph> TreeFromParents(const std::vector<int>& parents);
// The same of as many trees as there are roots; at its root.
struct Forest {
  Graph graph;
  std::vector<int> root_of_rank;
};
StatusOr<Forest> ForestFromParents(const std::vector<int>& parents);

// root -> every other rank: one step, n(p-1) bytes out of the root.
Graph Star(int size, int root);
// Binary tree over ranks rotated so that `root` is first: O(log p) steps.
Graph BinaryTree(int size, int root);
// A chain root -> root+1 -> … (mod size): p-1 steps, n bytes out of each rank but the last.
Graph Chain(int size, int root);
// The root of each host: its first rank. Hosts are numbered in order of first appearance, as by PeerList::HostOfRanks.
std::vector<int> HostRootsOf(const std::vector<int>& host_of_rank);
// Within each host a star from the host's root: its first rank, or `root` on the host of `root`. Between the hosts'
// roots a star / a binary tree, from `root`.
Graph HostStar(const std::vector<int>& host_of_rank, int root);
Graph HostBinaryTree(const std::vector<int>& host_of_rank, int root);
// The same with a star, but each host's root is the counterpart of `root`: the rank in its place there, modulo the
// host's number of ranks. Taken over all `root` of one host, each peer is root equally often. Children of the same host
// come first, in rank order; then the others' roots in the order of hosts, those behind the one of `root` first.
Graph CounterpartStar(const std::vector<int>& host_of_rank, int root);

}  // namespace kungfu
