#include "ops/plan/topology.h"

#include <string>
#include <vector>

#include "tests/cpp/plan/edges.h"
#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

using testing::NumEdges;
using Ranks = std::vector<int>;

// The parent of each rank, the root being its own: what TreeFromParents takes.
Ranks ParentsIn(const Graph& graph) {
  Ranks parents;
  for (int rank = 0; rank < graph.size(); ++rank) {
    const Ranks& predecessors = graph.Predecessors(rank);
    parents.push_back(predecessors.empty() ? rank : predecessors[0]);
  }
  return parents;
}

void ExpectParents(const Graph& graph, const Ranks& parents) {
  EXPECT_TRUE(ParentsIn(graph) == parents);
  const StatusOr<Graph> same = TreeFromParents(parents);
  ASSERT_TRUE(same.ok());
  EXPECT_TRUE(*same == graph);
}

void ExpectNoTree(const Ranks& parents, const std::string& why) {
  const StatusOr<Graph> graph = TreeFromParents(parents);
  ASSERT_TRUE(!graph.ok());
  EXPECT_EQ(graph.status().code(), Code::kInvalidArgument);
  EXPECT_CONTAINS(graph.status().message(), why);
}

KF_TEST(Topology, TreeFromParentsPutsChildrenInRankOrderFromTheirParentOn) {
  const StatusOr<Graph> graph = TreeFromParents({3, 3, 1, 3, 3});
  ASSERT_TRUE(graph.ok());
  EXPECT_TRUE(graph->Successors(3) == (Ranks{4, 0, 1}));
  EXPECT_TRUE(graph->Successors(1) == (Ranks{2}));
  EXPECT_EQ(NumEdges(*graph), 4);
  EXPECT_EQ(NumEdges(*TreeFromParents({0})), 0);
}

KF_TEST(Topology, RejectsWhatIsNoTree) {
  ExpectNoTree({}, "no root");
  ExpectNoTree({0, 2}, "rank 1 has parent 2, which is no rank of 2");
  ExpectNoTree({0, -1}, "rank 1 has parent -1");
  ExpectNoTree({0, 1}, "rank 1 is a root, and rank 0 is too");
  ExpectNoTree({1, 0}, "no root");
  ExpectNoTree({0, 2, 3, 1, 0}, "3 ranks are not below a root");
}

KF_TEST(Topology, AForestHasAsManyTreesAsRoots) {
  const StatusOr<Forest> forest = ForestFromParents({0, 3, 0, 3, 1});
  ASSERT_TRUE(forest.ok());
  EXPECT_TRUE(forest->root_of_rank == (Ranks{0, 3, 0, 3, 3}));
  EXPECT_TRUE(ParentsIn(forest->graph) == (Ranks{0, 3, 0, 3, 1}));
  EXPECT_CONTAINS(ForestFromParents({0, 2, 1}).status().message(), "2 ranks are not below a root");
}

KF_TEST(Topology, Stars) {
  ExpectParents(Star(1, 0), {0});
  ExpectParents(Star(4, 0), {0, 0, 0, 0});
  ExpectParents(Star(4, 2), {2, 2, 2, 2});
}

KF_TEST(Topology, BinaryTrees) {
  ExpectParents(BinaryTree(1, 0), {0});
  ExpectParents(BinaryTree(7, 0), {0, 0, 0, 1, 1, 2, 2});
  ExpectParents(BinaryTree(5, 3), {3, 4, 4, 3, 3});
  EXPECT_TRUE(BinaryTree(5, 4).Successors(4) == (Ranks{0, 1}));
  EXPECT_TRUE(BinaryTree(4, 2).Successors(2) == (Ranks{3, 0}));
}

KF_TEST(Topology, Chains) {
  ExpectParents(Chain(1, 0), {0});
  ExpectParents(Chain(4, 0), {0, 0, 1, 2});
  ExpectParents(Chain(4, 2), {3, 0, 2, 2});
}

KF_TEST(Topology, HostRootsAreTheFirstOfTheirHosts) {
  EXPECT_TRUE(HostRootsOf({0, 1, 0, 2, 1}) == (Ranks{0, 1, 3}));
  EXPECT_TRUE(HostRootsOf({}).empty());
}

KF_TEST(Topology, HostStars) {
  const std::vector<int> hosts = {0, 0, 1, 1, 1, 2};
  ExpectParents(HostStar(hosts, 0), {0, 0, 0, 2, 2, 0});
  ExpectParents(HostStar(hosts, 2), {2, 0, 2, 2, 2, 2});
  ExpectParents(HostStar(hosts, 3), {3, 0, 3, 3, 3, 3});
  ExpectParents(HostStar({0, 0, 0}, 1), {1, 1, 1});
}

// Five hosts of two; between their roots 0, 2, 4, 6, 8 a binary tree.
KF_TEST(Topology, HostBinaryTrees) {
  const std::vector<int> hosts = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4};
  ExpectParents(HostBinaryTree(hosts, 0), {0, 0, 0, 2, 0, 4, 2, 6, 2, 8});
  ExpectParents(HostBinaryTree(hosts, 6), {6, 0, 8, 2, 8, 4, 6, 6, 6, 8});
  // A root that is not the first of its host stands in for it.
  ExpectParents(HostBinaryTree(hosts, 7), {7, 0, 8, 2, 8, 4, 7, 7, 7, 8});
}

// Three hosts of two: first the host's own peers, then the counterparts from the next host on.
KF_TEST(Topology, CounterpartStars) {
  const std::vector<int> hosts = {0, 0, 1, 1, 2, 2};
  EXPECT_TRUE(CounterpartStar(hosts, 0).Successors(0) == (Ranks{1, 2, 4}));
  EXPECT_TRUE(CounterpartStar(hosts, 3).Successors(3) == (Ranks{2, 5, 1}));
  EXPECT_TRUE(CounterpartStar(hosts, 3).Successors(5) == (Ranks{4}));
  EXPECT_TRUE(CounterpartStar(hosts, 4).Successors(4) == (Ranks{5, 0, 2}));
}

KF_TEST(Topology, HostsMayInterleave) {
  ExpectParents(HostStar({0, 1, 0, 1}, 0), {0, 0, 0, 1});
  ExpectParents(HostBinaryTree({0, 1, 2, 0, 1, 2}, 1), {1, 1, 1, 0, 1, 2});
}

}  // namespace
}  // namespace kungfu
