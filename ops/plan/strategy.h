// A strategy is data: the graph pairs over which the chunks of a tensor are spread.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ops/base/status.h"
#include "ops/plan/graph.h"
#include "ops/plan/peer_list.h"

namespace kungfu {

// Values cross processes: append only. Each strategy has a row in strategy.cc.
enum class StrategyName : uint8_t {
  kAuto = 0,                 // the fastest one: see cost.h
  kStar = 1,                 // one star, root 0
  kMultiStar = 2,            // one pair per host: a star from the host's root
  kRing = 3,                 // p pairs: a chain from each rank
  kClique = 4,               // p pairs: a star from each rank
  kTree = 5,                 // star within hosts, star between their roots
  kBinaryTree = 6,           // one binary tree over all ranks
  kBinaryTreeStar = 7,       // star within hosts, binary tree between their roots
  kMultiBinaryTreeStar = 8,  // the same, one pair per host as root
  kHierarchy = 9,            // p pairs: star within hosts, star between those of one place on each host
};
inline constexpr int kNumStrategies = 10;

// Makes each pair when it is asked for: all of them would take memory that grows with the square of the peers.
class Strategy {
 public:
  Strategy(int size, std::function<GraphPair(int number)> make) : size_(size), make_(std::move(make)) {}

  int size() const { return size_; }
  GraphPair Pair(int number) const { return make_(number); }
  std::vector<GraphPair> AllPairs() const;

 private:
  int size_;
  std::function<GraphPair(int number)> make_;
};

// The strategy of a session: one of these by its name, or a tree that the program gives.
struct StrategySpec {
  StrategySpec(StrategyName name = StrategyName::kAuto) : name(name) {}
  // The parent of each rank, as for TreeFromParents.
  explicit StrategySpec(std::vector<int> parents) : name(StrategyName::kTree), parents(std::move(parents)) {}

  // "RING", "the tree 0,0,1"
  std::string ToString() const;
  // An error if it is a tree, but none of so many ranks.
  Status CheckFor(int size) const;
  // A digest of it, on which peers must agree.
  uint64_t digest() const;

  StrategyName name;
  std::vector<int> parents;  // empty: of no tree
};

// "RING" or "ring"; an error that lists the names.
StatusOr<StrategyName> ParseStrategy(const std::string& text);
const char* Name(StrategyName name);

// REQUIRES: name is not kAuto, peers are not empty. The cost of each for n bytes and p peers is stated in strategy.cc.
Strategy MakeStrategy(StrategyName name, const PeerList& peers);

}  // namespace kungfu
