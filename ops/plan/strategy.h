// A strategy is data: the graph pairs over which the chunks of a tensor are spread.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/base/status.h"
#include "ops/plan/graph.h"
#include "ops/plan/peer_list.h"

namespace kungfu {

// Values cross processes: append only.
enum class StrategyName : uint8_t {
  kAuto = 0,                 // whatever is fastest: see cost.h
  kStar = 1,                 // one star, root 0
  kMultiStar = 2,            // one pair per host: a star from the host's master
  kRing = 3,                 // p pairs: a chain from each rank
  kClique = 4,               // p pairs: a star from each rank
  kTree = 5,                 // star within hosts, star between masters
  kBinaryTree = 6,           // one binary tree over all ranks
  kBinaryTreeStar = 7,       // star within hosts, binary tree between masters
  kMultiBinaryTreeStar = 8,  // the same, one pair per host as root
  kHierarchy = 9,            // p pairs: star within hosts, star between those of one place on each host
};
inline constexpr int kNumStrategies = 10;

using Strategy = std::vector<GraphPair>;

// "RING" or "ring"; an error that lists the names.
StatusOr<StrategyName> ParseStrategy(const std::string& text);
const char* Name(StrategyName name);

// REQUIRES: name is not kAuto, peers are not empty. The cost of each for n bytes and p peers is stated in strategy.cc.
Strategy MakeStrategy(StrategyName name, const PeerList& peers);

}  // namespace kungfu
