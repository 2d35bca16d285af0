// A directed graph over the ranks of a session, whose edges lead from senders to receivers.

#pragma once

#include <vector>

namespace kungfu {

class Graph {
 public:
  Graph() = default;
  explicit Graph(int size) : nodes_(size) {}

  int size() const { return static_cast<int>(nodes_.size()); }
  // REQUIRES: both in range, different, and the edge not there yet.
  void AddEdge(int from, int to);

  // In the order in which they were added: operands are reduced in this order, whichever arrives first.
  const std::vector<int>& Predecessors(int rank) const { return nodes_[rank].predecessors; }
  const std::vector<int>& Successors(int rank) const { return nodes_[rank].successors; }

  // Every edge turned around.
  Graph Reversed() const;
  friend bool operator==(const Graph& a, const Graph& b);

 private:
  struct Node {
    std::vector<int> predecessors;
    std::vector<int> successors;
    friend bool operator==(const Node& a, const Node& b) {
      return a.predecessors == b.predecessors && a.successors == b.successors;
    }
  };
  std::vector<Node> nodes_;
};

// How one chunk travels: along `reduce` to one rank that then holds the result, and from there along `broadcast`.
// In both graphs every rank has at most one way: one successor in `reduce`, one predecessor in `broadcast`.
struct GraphPair {
  Graph reduce;
  Graph broadcast;
};

}  // namespace kungfu
