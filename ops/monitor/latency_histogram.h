// How long operations took: counts by powers of two. Anybody may add and read, from any thread.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace kungfu {

class LatencyHistogram {
 public:
  // Bucket i counts operations that took at most UpperBound(i) seconds, and more than fits the one below: 1 µs, 2 µs, 4
  // µs ... 67 s. The last takes all the rest.
  static constexpr int kBuckets = 28;
  static double UpperBound(int bucket);

  void Add(double seconds);

  uint64_t count(int bucket) const { return counts_[bucket].load(std::memory_order_relaxed); }
  // The sums over all that was added.
  double seconds() const { return static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) * 1e-9; }

 private:
  std::array<std::atomic<uint64_t>, kBuckets> counts_{};
  std::atomic<uint64_t> nanoseconds_{0};
};

}  // namespace kungfu
