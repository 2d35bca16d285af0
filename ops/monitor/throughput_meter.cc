#include "ops/monitor/throughput_meter.h"

#include <algorithm>

namespace kungfu {

void ThroughputMeter::Begin(Clock::time_point now) {
  MutexLock lock(&mu_);
  if (running_++ == 0) since_ = now;
}

// The time since the last end belongs to this operation, whichever others it shared it with.
void ThroughputMeter::End(Clock::time_point now, int key, uint64_t bytes) {
  MutexLock lock(&mu_);
  --running_;
  const double seconds = std::max(0.0, Seconds(now - since_).count());
  since_ = std::max(now, since_);
  if (bytes == 0) return;
  Entry& entry = entries_[key];
  for (Amount* amount : {&entry.result.total, &entry.window}) {
    amount->bytes += bytes;
    amount->seconds += seconds;
  }
}

void ThroughputMeter::EndWindow() {
  MutexLock lock(&mu_);
  for (auto& [key, entry] : entries_) {
    if (entry.window.bytes == 0) continue;
    entry.result.newest = entry.window.rate();
    entry.result.best = std::max(entry.result.best, entry.result.newest);
    entry.window = {};
  }
}

void ThroughputMeter::Forget(int key) {
  MutexLock lock(&mu_);
  const auto it = entries_.find(key);
  if (it != entries_.end()) it->second.Forget();
}

void ThroughputMeter::Forget() {
  MutexLock lock(&mu_);
  for (auto& [key, entry] : entries_) entry.Forget();
}

ThroughputMeter::Throughput ThroughputMeter::Of(int key) const {
  MutexLock lock(&mu_);
  const auto it = entries_.find(key);
  return it == entries_.end() ? Throughput{} : it->second.result;
}

}  // namespace kungfu
