// The measurements that an all-reduce can make while it has the data at hand.

#pragma once

#include <limits>

namespace kungfu {

// Squared norms, all tensors of the operation together.
struct Norms {
  double sent = 0;
  double received = 0;

  static constexpr Norms Unknown() {
    return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  }
};

// A movement's. Each peer measures a share. Over the peers these add up to the sum of the squares of all inputs, and of
// the result.
struct Measurement {
  bool wanted = false;    // by this peer; where a peer does not want it its share is Norms::Unknown()
  bool complete = false;  // `norms` are no share but the sums, which all peers have; or none has
  Norms norms;
};

}  // namespace kungfu
