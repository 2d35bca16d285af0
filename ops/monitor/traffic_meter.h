// How fast bytes go to and come from each peer of a membership, which may change. A peer may have several counters.

#pragma once

#include <cstdint>
#include <vector>

#include "ops/base/mutex.h"
#include "ops/monitor/rate_meter.h"

namespace kungfu {

// Any thread.
class TrafficMeter {
 public:
  // Bytes per second, over about the last second.
  struct Rates {
    double sent = 0, received = 0;
  };

  explicit TrafficMeter(Clock::time_point start) : sent_(start), received_(start) {}

  // By counter, of the bytes that went and came so far. Those of a newer `version` are counted from now on, and a call
  // with an older one gets zeros.
  std::vector<Rates> Update(Clock::time_point now, uint32_t version, const std::vector<uint64_t>& sent,
                            const std::vector<uint64_t>& received) EXCLUDES(mu_);

 private:
  Mutex mu_;
  RateMeter sent_ GUARDED_BY(mu_), received_ GUARDED_BY(mu_);
  uint32_t version_ GUARDED_BY(mu_) = 0;
};

}  // namespace kungfu
