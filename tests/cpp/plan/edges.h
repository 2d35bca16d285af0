// What the tests of graphs count.

#pragma once

#include "ops/plan/graph.h"

namespace kungfu::testing {

inline int NumEdges(const Graph& graph) {
  int edges = 0;
  for (int rank = 0; rank < graph.size(); ++rank) edges += static_cast<int>(graph.Successors(rank).size());
  return edges;
}

}  // namespace kungfu::testing
