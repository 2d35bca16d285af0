#include "ops/monitor/latency_histogram.h"

#include <algorithm>
#include <limits>

namespace kungfu {

double LatencyHistogram::UpperBound(int bucket) {
  if (bucket == kBuckets - 1) return std::numeric_limits<double>::infinity();
  return 1e-6 * static_cast<double>(uint64_t{1} << bucket);
}

// The bucket is the number of bits of the microseconds that have begun, less one.
void LatencyHistogram::Add(double seconds) {
  const auto nanoseconds = static_cast<uint64_t>(seconds * 1e9);
  const uint64_t begun = nanoseconds > 0 ? (nanoseconds - 1) / 1000 : 0;
  const int bits = begun > 0 ? 64 - __builtin_clzll(begun) : 0;
  counts_[std::min(bits, kBuckets - 1)].fetch_add(1, std::memory_order_relaxed);
  nanoseconds_.fetch_add(nanoseconds, std::memory_order_relaxed);
}

}  // namespace kungfu
