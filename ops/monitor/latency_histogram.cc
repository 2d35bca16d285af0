#include "ops/monitor/latency_histogram.h"

#include <limits>

namespace kungfu {

double LatencyHistogram::UpperBound(int bucket) {
  if (bucket == kBuckets - 1) return std::numeric_limits<double>::infinity();
  return 1e-6 * static_cast<double>(uint64_t{1} << bucket);
}

void LatencyHistogram::Add(double seconds) {
  int bucket = 0;
  while (seconds > UpperBound(bucket)) ++bucket;
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  nanoseconds_.fetch_add(static_cast<uint64_t>(seconds * 1e9), std::memory_order_relaxed);
}

}  // namespace kungfu
