// How fast counters grow, over about the last second. It keeps no clock: the caller gives the time.

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "ops/base/deadline.h"

namespace kungfu {

// One thread.
class RateMeter {
 public:
  static constexpr Seconds kWindow{1};

  // At `start` all counters were 0.
  explicit RateMeter(Clock::time_point start) : start_(start) {}

  // The growth of each counter per second since a look at least kWindow ago; without one, since the first look, or
  // since the start.
  std::vector<double> Update(Clock::time_point now, const std::vector<uint64_t>& totals);
  // From now on other things are counted, perhaps another number of them.
  void Restart(Clock::time_point now, const std::vector<uint64_t>& totals) { looks_ = {{now, totals}}; }

 private:
  struct Look {
    Clock::time_point when;
    std::vector<uint64_t> totals;
  };

  Clock::time_point start_;
  std::deque<Look> looks_;  // oldest first
};

}  // namespace kungfu
