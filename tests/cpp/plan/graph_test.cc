#include "ops/plan/graph.h"

#include <vector>

#include "tests/cpp/plan/edges.h"
#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

using testing::NumEdges;
using Ranks = std::vector<int>;

KF_TEST(Graph, KeepsEdgesInTheOrderOfAdding) {
  Graph graph(4);
  graph.AddEdge(3, 0);
  graph.AddEdge(1, 0);
  graph.AddEdge(3, 2);
  EXPECT_EQ(graph.size(), 4);
  EXPECT_EQ(NumEdges(graph), 3);
  EXPECT_TRUE(graph.Predecessors(0) == (Ranks{3, 1}));
  EXPECT_TRUE(graph.Successors(3) == (Ranks{0, 2}));
  EXPECT_TRUE(graph.Predecessors(3).empty());
  EXPECT_TRUE(graph.Successors(0).empty());
}

KF_TEST(Graph, TurnsAround) {
  Graph graph(3);
  graph.AddEdge(0, 2);
  graph.AddEdge(0, 1);
  const Graph reversed = graph.Reversed();
  EXPECT_TRUE(reversed.Predecessors(0) == (Ranks{2, 1}));
  EXPECT_TRUE(reversed.Successors(1) == (Ranks{0}));
  EXPECT_EQ(NumEdges(reversed), 2);
  EXPECT_TRUE(reversed.Reversed() == graph);
  EXPECT_FALSE(reversed == graph);
}

KF_TEST(Graph, IsCutToWhatARankNeeds) {
  Graph graph(6);  // 5 -> 4 -> 3 -> 0 -> 1, 2 -> 0
  graph.AddEdge(3, 0);
  graph.AddEdge(2, 0);
  graph.AddEdge(4, 3);
  graph.AddEdge(5, 4);
  graph.AddEdge(0, 1);
  const Graph part = graph.Around(0);
  EXPECT_EQ(part.size(), 6);
  EXPECT_TRUE(part.Predecessors(0) == (Ranks{3, 2}));
  EXPECT_TRUE(part.Successors(0) == (Ranks{1}));
  EXPECT_TRUE(part.Predecessors(3) == (Ranks{4}));
  EXPECT_TRUE(part.Predecessors(2).empty());
  EXPECT_TRUE(part.Predecessors(4).empty());
  EXPECT_FALSE(part == graph);
  EXPECT_TRUE(part == graph.Around(0));
  EXPECT_FALSE(part == graph.Around(3));
}

KF_TEST(Graph, OrderBelongsToEquality) {
  Graph a(3), b(3);
  a.AddEdge(0, 1);
  a.AddEdge(0, 2);
  b.AddEdge(0, 2);
  b.AddEdge(0, 1);
  EXPECT_FALSE(a == b);
  EXPECT_FALSE(Graph(2) == Graph(3));
  EXPECT_TRUE(Graph() == Graph(0));
}

}  // namespace
}  // namespace kungfu
