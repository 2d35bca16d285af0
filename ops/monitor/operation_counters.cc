#include "ops/monitor/operation_counters.h"

#include <utility>

namespace kungfu {
namespace {

bool IsMonitored(const std::string& name) { return name.compare(0, sizeof(kMonitored) - 1, kMonitored) == 0; }

}  // namespace

void OperationCounters::Began(const std::string& name, Clock::time_point now) {
  ++pending_;
  if (IsMonitored(name)) throughput_.Begin(now);
}

void OperationCounters::Ended(const std::string& name, bool ok, Clock::time_point began, uint64_t bytes, int strategy) {
  const bool was_called = began != Clock::time_point{};
  const Clock::time_point now = was_called ? Clock::now() : began;
  if (was_called) --pending_;
  if (was_called && IsMonitored(name)) throughput_.End(now, strategy, ok ? bytes : 0);
  if (was_called && ok) {
    bytes_ += bytes;
    latencies_.Add(Seconds(now - began).count());
  }
  MutexLock lock(&mu_);
  if (timeline_ && was_called) timeline_->Add(name, began, now, bytes, ok);
  if (!ok) {
    ++failed_;
    return;
  }
  ++completed_;
  ++by_name_[name];
}

std::unique_ptr<Timeline> OperationCounters::Record(std::unique_ptr<Timeline> timeline) {
  MutexLock lock(&mu_);
  return std::exchange(timeline_, std::move(timeline));
}

uint64_t OperationCounters::completed() const {
  MutexLock lock(&mu_);
  return completed_;
}

uint64_t OperationCounters::failed() const {
  MutexLock lock(&mu_);
  return failed_;
}

uint64_t OperationCounters::completed(const std::string& name) const {
  MutexLock lock(&mu_);
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? 0 : it->second;
}

}  // namespace kungfu
