// What the table in strategy.cc says of a strategy, for h hosts of l peers.

#pragma once

#include <cmath>

#include "ops/base/logging.h"
#include "ops/plan/strategy.h"

namespace kungfu::testing {

struct Cost {
  double pairs = 0;
  double steps = 0;
  double bytes = 0;  // in units of the tensor
  double between_hosts = 0;
  double connections = 0;
  bool bound = false;  // bytes and connections are no more than these
};

inline Cost StatedCost(StrategyName name, int hosts, int peers_per_host) {
  const double h = hosts, l = peers_per_host, p = h * l;
  const double log_p = std::floor(std::log2(p)), log_h = std::floor(std::log2(h));
  switch (name) {
    case StrategyName::kStar:
      return {1, 2, p - 1, p - l, p - 1};
    case StrategyName::kMultiStar:
      return {h, 2, (p + h - 2) / h, 2 * l * (h - 1) / h, p - 1};
    case StrategyName::kRing:
      return {p, 2 * (p - 1), 2 * (p - 1) / p, 2 * (p - 1) / p, 2};
    case StrategyName::kClique:
      return {p, 2, 2 * (p - 1) / p, 2 * l * (h - 1) / h, p - 1};
    case StrategyName::kTree:
      return {1, 4, l + h - 2, h - 1, l + h - 2};
    case StrategyName::kBinaryTree:
      return {1, 2 * log_p, 3, 3 * l, 3, true};
    case StrategyName::kBinaryTreeStar:
      return {1, 2 * (1 + log_h), l + 2, 3, l + 2, true};
    case StrategyName::kMultiBinaryTreeStar:
      return {h, 2 * (1 + log_h), l - 1 + 2 * (h - 1) / h, 2 * (h - 1) / h, l + h - 2};
    case StrategyName::kHierarchy:
      return {p, 4, 2 * (p - 1) / p, 2 * (h - 1) / h, l + h - 2};
    case StrategyName::kAuto:
      break;
  }
  KF_CHECK(false) << "AUTO has no cost of its own";
  return {};
}

}  // namespace kungfu::testing
