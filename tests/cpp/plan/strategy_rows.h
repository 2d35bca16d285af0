// What tests expect of each strategy: a row each. strategy_test.cc compares the graphs with it, and counts_test.cc what
// peers send. The grids of collectives take every strategy that has a row.

#pragma once

#include <algorithm>
#include <cmath>

#include "ops/plan/strategy.h"
#include "tests/cpp/plan/layouts.h"

namespace kungfu::testing {

// As the table in strategy.cc states it.
struct Cost {
  double pairs = 0;
  double steps = 0;
  double bytes = 0;  // in units of the tensor
  double between_hosts = 0;
  double connections = 0;
  bool bound = false;  // bytes and connections are no more than these
};

struct StrategyRow {
  StrategyName name;
  int hosts, peers_per_host;                   // over which counts_test.cc counts it
  Cost (*cost)(double h, double l, double p);  // of h hosts of l peers, p in all
};

// The depth of a binary tree.
inline double Levels(double size) { return std::floor(std::log2(size)); }

inline constexpr StrategyRow kStrategyRows[] = {
    {StrategyName::kStar, 16, 16, [](double, double l, double p) -> Cost { return {1, 2, p - 1, p - l, p - 1}; }},
    {StrategyName::kMultiStar, 8, 32,
     [](double h, double l, double p) -> Cost { return {h, 2, (p + h - 2) / h, 2 * l * (h - 1) / h, p - 1}; }},
    {StrategyName::kRing, 8, 16,
     [](double, double, double p) -> Cost { return {p, 2 * (p - 1), 2 * (p - 1) / p, 2 * (p - 1) / p, 2}; }},
    // Among more peers a clique has more connections than a process may have descriptors.
    {StrategyName::kClique, 8, 8,
     [](double h, double l, double p) -> Cost { return {p, 2, 2 * (p - 1) / p, 2 * l * (h - 1) / h, p - 1}; }},
    {StrategyName::kTree, 16, 16,
     [](double h, double l, double) -> Cost { return {1, 4, l + h - 2, h - 1, l + h - 2}; }},
    {StrategyName::kBinaryTree, 16, 16,
     [](double, double l, double p) -> Cost { return {1, 2 * Levels(p), 3, 3 * l, 3, true}; }},
    {StrategyName::kBinaryTreeStar, 16, 16,
     [](double h, double l, double) -> Cost { return {1, 2 * (1 + Levels(h)), l + 2, 3, l + 2, true}; }},
    {StrategyName::kMultiBinaryTreeStar, 16, 16,
     [](double h, double l, double) -> Cost {
       return {h, 2 * (1 + Levels(h)), l - 1 + 2 * (h - 1) / h, 2 * (h - 1) / h, l + h - 2};
     }},
    {StrategyName::kHierarchy, 8, 16,
     [](double h, double l, double p) -> Cost { return {p, 4, 2 * (p - 1) / p, 2 * (h - 1) / h, l + h - 2}; }},
};

// Whether its graphs depend on who shares a host.
inline bool KnowsHosts(StrategyName name) {
  const std::vector<GraphPair> apart = MakeStrategy(name, PeersOnEqualHosts(3, 2)).AllPairs(),
                               together = MakeStrategy(name, PeersOnEqualHosts(1, 6)).AllPairs();
  return !std::equal(
      apart.begin(), apart.end(), together.begin(), together.end(),
      [](const GraphPair& a, const GraphPair& b) { return a.reduce == b.reduce && a.broadcast == b.broadcast; });
}

inline Cost StatedCost(const StrategyRow& row, int hosts, int peers_per_host) {
  return row.cost(hosts, peers_per_host, static_cast<double>(hosts) * peers_per_host);
}

}  // namespace kungfu::testing
