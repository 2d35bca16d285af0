// A rank's part in a weighted average of neighbours: whom it takes from, who takes from it, and with what weights.

#pragma once

#include <vector>

#include "ops/base/status.h"

namespace kungfu {

// Each rank makes  self·x + Σ weight of source s · (weight of this rank as a target of s · x of s).
struct Mixing {
  struct Neighbor {
    int rank = 0;
    double weight = 1;
  };
  double self = 1;
  std::vector<Neighbor> sources;  // added in this order
  std::vector<Neighbor> targets;  // what is sent to one is multiplied by its weight

  // With the neighbours in the order of their ranks.
  static Mixing Of(double self, std::vector<Neighbor> sources, std::vector<Neighbor> targets);
};

// Whether rank `rank` of `size` can take this part: neighbours are other ranks, and none is there twice.
Status CheckMixing(const Mixing& mixing, int size, int rank);
// Whether data go between this rank and another one.
bool AreNeighbors(const Mixing& mixing, int other);

}  // namespace kungfu
