// A directed graph over the ranks of a session, whose edges lead from senders to receivers.

#pragma once

#include <vector>

namespace kungfu {

class Graph {
 public:
  Graph() = default;
  explicit Graph(int size) : size_(size), nodes_(size) {}

  int size() const { return size_; }
  // REQUIRES: both in range, different, and the edge not there yet; it is no part of a graph.
  void AddEdge(int from, int to);

  // In the order in which they were added: operands are reduced in this order, whichever arrives first.
  const std::vector<int>& Predecessors(int rank) const { return At(rank).predecessors; }
  const std::vector<int>& Successors(int rank) const { return At(rank).successors; }

  // Every edge turned around. REQUIRES: it is no part of a graph.
  Graph Reversed() const;
  // The part that a rank needs, which takes no memory for the others: its edges, and the predecessors of its
  // predecessors.
  Graph Around(int rank) const;
  friend bool operator==(const Graph& a, const Graph& b);

 private:
  struct Node {
    std::vector<int> predecessors;
    std::vector<int> successors;
    friend bool operator==(const Node& a, const Node& b) {
      return a.predecessors == b.predecessors && a.successors == b.successors;
    }
  };
  const Node& At(int rank) const;

  int size_ = 0;
  bool is_part_ = false;
  std::vector<Node> nodes_;  // by rank; of a part by the place in ranks_
  std::vector<int> ranks_;   // of a part, in order
};

// How one chunk travels: along `reduce` to one rank that then holds the result, and from there along `broadcast`.
// In both graphs every rank has at most one way: one successor in `reduce`, one predecessor in `broadcast`.
struct GraphPair {
  Graph reduce;
  Graph broadcast;
};

}  // namespace kungfu
