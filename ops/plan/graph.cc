#include "ops/plan/graph.h"

#include <algorithm>

#include "ops/base/logging.h"

namespace kungfu {

void Graph::AddEdge(int from, int to) {
  const auto in_range = [this](int rank) { return 0 <= rank && rank < size(); };
  KF_CHECK(in_range(from) && in_range(to) && from != to) << from << " -> " << to << " of " << size();
  std::vector<int>& successors = nodes_[from].successors;
  const bool is_new = std::find(successors.begin(), successors.end(), to) == successors.end();
  KF_CHECK(is_new) << from << " -> " << to;
  successors.push_back(to);
  nodes_[to].predecessors.push_back(from);
}

Graph Graph::Reversed() const {
  Graph reversed = *this;
  for (Node& node : reversed.nodes_) std::swap(node.predecessors, node.successors);
  return reversed;
}

bool operator==(const Graph& a, const Graph& b) { return a.nodes_ == b.nodes_; }

}  // namespace kungfu
