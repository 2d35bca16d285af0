#include "ops/plan/topology.h"

#include <algorithm>
#include <string>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

// Parent of each place of a tree whose places are numbered from its root, 0.
int ParentInStar(int) { return 0; }
int ParentInBinaryTree(int place) { return (place - 1) / 2; }
int ParentInChain(int place) { return place - 1; }
using ParentOfPlace = int (*)(int place);

// Going through the children by rank, twice, puts each parent's children in the order that topology.h states.
Graph GraphOf(const std::vector<int>& parents) {
  const int size = static_cast<int>(parents.size());
  Graph graph(size);
  for (int rank = 0; rank < size; ++rank) {
    if (parents[rank] < rank) graph.AddEdge(parents[rank], rank);
  }
  for (int rank = 0; rank < size; ++rank) {
    if (parents[rank] > rank) graph.AddEdge(parents[rank], rank);
  }
  return graph;
}

std::vector<int> Reachable(const Graph& graph, int root) {
  std::vector<int> reached = {root};
  for (size_t i = 0; i < reached.size(); ++i) {
    const std::vector<int>& children = graph.Successors(reached[i]);
    reached.insert(reached.end(), children.begin(), children.end());
  }
  return reached;
}

// The tree that `parent_of_place` describes over `members`, rotated so that members[first] is its root.
void LinkTree(const std::vector<int>& members, int first, ParentOfPlace parent_of_place, std::vector<int>* parents) {
  const int size = static_cast<int>(members.size());
  const auto member_at = [&](int place) { return members[(first + place) % size]; };
  (*parents)[member_at(0)] = member_at(0);
  for (int place = 1; place < size; ++place) (*parents)[member_at(place)] = member_at(parent_of_place(place));
}

Graph TreeOverAll(int size, int root, ParentOfPlace parent_of_place) {
  KF_CHECK(0 <= root && root < size) << "root " << root << " of " << size;
  std::vector<int> ranks(size);
  for (int rank = 0; rank < size; ++rank) ranks[rank] = rank;
  std::vector<int> parents(size);
  LinkTree(ranks, root, parent_of_place, &parents);
  return GraphOf(parents);
}

// A star within each host from its root, and a tree between these from `root`, which is one of them.
Graph TreeOverHosts(const std::vector<int>& host_of_rank, const std::vector<int>& root_of_host, int root,
                    ParentOfPlace parent_of_place) {
  const int size = static_cast<int>(host_of_rank.size());
  std::vector<int> parents(size);
  for (int rank = 0; rank < size; ++rank) parents[rank] = root_of_host[host_of_rank[rank]];
  LinkTree(root_of_host, host_of_rank[root], parent_of_place, &parents);
  return GraphOf(parents);
}

Graph TreeOverHostRoots(const std::vector<int>& host_of_rank, int root, ParentOfPlace parent_of_place) {
  KF_CHECK(0 <= root && root < static_cast<int>(host_of_rank.size())) << "root " << root;
  std::vector<int> root_of_host = HostRootsOf(host_of_rank);
  root_of_host[host_of_rank[root]] = root;
  return TreeOverHosts(host_of_rank, root_of_host, root, parent_of_place);
}

}  // namespace

StatusOr<Forest> ForestFromParents(const std::vector<int>& parents) {
  const int size = static_cast<int>(parents.size());
  constexpr int kNone = -1;
  for (int rank = 0; rank < size; ++rank) {
    if (parents[rank] >= 0 && parents[rank] < size) continue;
    return InvalidArgumentError("tree: rank " + std::to_string(rank) + " has parent " + std::to_string(parents[rank]) +
                                ", which is no rank of " + std::to_string(size));
  }
  Forest forest{GraphOf(parents), std::vector<int>(size, kNone)};
  for (int rank = 0; rank < size; ++rank) {
    if (parents[rank] != rank) continue;
    for (const int below : Reachable(forest.graph, rank)) forest.root_of_rank[below] = rank;
  }
  const auto strays = std::count(forest.root_of_rank.begin(), forest.root_of_rank.end(), kNone);
  if (strays == size) return InvalidArgumentError("tree: no rank is its own parent, so there is no root");
  if (strays == 0) return forest;
  return InvalidArgumentError("tree: " + std::to_string(strays) +
                              " ranks are not below a root: their parents form a cycle");
}

StatusOr<Graph> TreeFromParents(const std::vector<int>& parents) {
  StatusOr<Forest> forest = ForestFromParents(parents);
  if (!forest.ok()) return forest.status();
  for (size_t rank = 0; rank < parents.size(); ++rank) {
    const int root = forest->root_of_rank[rank], first = forest->root_of_rank[0];
    if (root == first) continue;
    return InvalidArgumentError("tree: rank " + std::to_string(std::max(root, first)) + " is a root, and rank " +
                                std::to_string(std::min(root, first)) + " is too");
  }
  return std::move(forest->graph);
}

Graph Star(int size, int root) { return TreeOverAll(size, root, ParentInStar); }
Graph BinaryTree(int size, int root) { return TreeOverAll(size, root, ParentInBinaryTree); }
Graph Chain(int size, int root) { return TreeOverAll(size, root, ParentInChain); }

std::vector<int> HostRootsOf(const std::vector<int>& host_of_rank) {
  std::vector<int> roots;
  for (size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    if (host_of_rank[rank] == static_cast<int>(roots.size())) roots.push_back(static_cast<int>(rank));
  }
  return roots;
}

Graph HostStar(const std::vector<int>& host_of_rank, int root) {
  return TreeOverHostRoots(host_of_rank, root, ParentInStar);
}

Graph HostBinaryTree(const std::vector<int>& host_of_rank, int root) {
  return TreeOverHostRoots(host_of_rank, root, ParentInBinaryTree);
}

Graph CounterpartStar(const std::vector<int>& host_of_rank, int root) {
  KF_CHECK(0 <= root && root < static_cast<int>(host_of_rank.size())) << "root " << root;
  std::vector<std::vector<int>> ranks_of_host(HostRootsOf(host_of_rank).size());
  for (size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    ranks_of_host[host_of_rank[rank]].push_back(static_cast<int>(rank));
  }
  const std::vector<int>& neighbours = ranks_of_host[host_of_rank[root]];
  const size_t place = std::find(neighbours.begin(), neighbours.end(), root) - neighbours.begin();
  std::vector<int> counterparts;
  for (const std::vector<int>& ranks : ranks_of_host) counterparts.push_back(ranks[place % ranks.size()]);
  Graph graph(static_cast<int>(host_of_rank.size()));
  for (size_t host = 0; host < counterparts.size(); ++host) {
    for (const int rank : ranks_of_host[host]) {
      if (rank != counterparts[host]) graph.AddEdge(counterparts[host], rank);
    }
  }
  const size_t hosts = counterparts.size(), first = host_of_rank[root];
  for (size_t step = 1; step < hosts; ++step) graph.AddEdge(root, counterparts[(first + step) % hosts]);
  return graph;
}

}  // namespace kungfu
