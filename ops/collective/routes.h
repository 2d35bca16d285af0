// The graphs along which the operations of a session travel.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ops/plan/cost.h"
#include "ops/plan/graph.h"
#include "ops/plan/peer_list.h"
#include "ops/plan/strategy.h"

namespace kungfu {

// Each is made once, when it is first used.
class Routes {
 public:
  // `tree`: the tree of TREE, by the parent of each rank; empty: the one of MakeStrategy.
  Routes(const Choice& choice, const std::vector<int>& tree, const PeerList& peers, int rank, uint64_t chunk_bytes);

  int rank() const { return rank_; }
  int size() const { return size_; }
  uint64_t chunk_bytes() const { return chunk_bytes_; }

  struct Lane {
    std::shared_ptr<const Graph> reduce;
    std::shared_ptr<const Graph> broadcast;
  };
  // The lanes of a strategy, each made when it is first used. It has the edges around this rank only: whole graphs
  // would take memory that grows with the square of the peers.
  class Lanes {
   public:
    Lanes(Strategy strategy, int rank) : strategy_(std::move(strategy)), rank_(rank), made_(strategy_.size()) {}
    int size() const { return strategy_.size(); }
    const Lane& operator[](int number);

   private:
    const Strategy strategy_;
    const int rank_;
    std::vector<Lane> made_;  // null: not yet
  };
  // Those of the strategy for so many bytes; `grows`: sums of several peers are longer (AccumulatorOf).
  Lanes* LanesFor(uint64_t bytes, bool grows) { return &lanes_.at(choice_.For(bytes, grows)); }
  // From `root` to all, and back.
  const Lane& Rooted(int root);
  // The same where each rank is a root at once. There a tree has no fewer bytes for the busiest of few ranks, and more
  // steps than stars.
  const Lane& RootedAtEach(int root);
  // Along the trees of a forest, and back. REQUIRES: it is one of this size.
  struct Trees {
    Lane lane;
    int size = 0;  // of the tree that this rank is in
  };
  Trees TreesOf(const std::vector<int>& parents) const;
  // The one edge from -> to.
  std::shared_ptr<const Graph> Edge(int from, int to) const;

 private:
  const Choice choice_;
  const int rank_;
  const int size_;
  const uint64_t chunk_bytes_;
  const std::vector<int> host_of_rank_;
  const bool is_one_host_;
  std::map<StrategyName, Lanes> lanes_;
  std::vector<std::unique_ptr<Lane>> rooted_, rooted_at_each_;
};

}  // namespace kungfu
