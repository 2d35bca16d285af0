#include "ops/plan/graph.h"

#include <algorithm>

#include "ops/base/logging.h"

namespace kungfu {

void Graph::AddEdge(int from, int to) {
  const auto in_range = [this](int rank) { return 0 <= rank && rank < size(); };
  KF_CHECK(in_range(from) && in_range(to) && from != to && !is_part_) << from << " -> " << to << " of " << size();
  std::vector<int>& successors = nodes_[from].successors;
  const bool is_new = std::find(successors.begin(), successors.end(), to) == successors.end();
  KF_CHECK(is_new) << from << " -> " << to;
  successors.push_back(to);
  nodes_[to].predecessors.push_back(from);
}

const Graph::Node& Graph::At(int rank) const {
  if (!is_part_) return nodes_[rank];
  static const Node* const none = new Node;
  const auto place = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  return place == ranks_.end() || *place != rank ? *none : nodes_[place - ranks_.begin()];
}

Graph Graph::Around(int rank) const {
  Graph part;
  part.size_ = size_;
  part.is_part_ = true;
  part.ranks_ = Predecessors(rank);
  part.ranks_.push_back(rank);
  std::sort(part.ranks_.begin(), part.ranks_.end());
  for (const int one : part.ranks_) {
    part.nodes_.push_back(one == rank ? At(one) : Node{Predecessors(one), {}});
  }
  return part;
}

Graph Graph::Reversed() const {
  Graph reversed = *this;
  for (Node& node : reversed.nodes_) std::swap(node.predecessors, node.successors);
  return reversed;
}

bool operator==(const Graph& a, const Graph& b) {
  return a.size_ == b.size_ && a.is_part_ == b.is_part_ && a.ranks_ == b.ranks_ && a.nodes_ == b.nodes_;
}

}  // namespace kungfu
