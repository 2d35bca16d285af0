#include "ops/monitor/operation_counters.h"

#include <utility>

#include "ops/base/begins_with.h"

namespace kungfu {
namespace {

bool IsMonitored(const std::string& name) { return BeginsWith(name, kMonitored); }

}  // namespace

void OperationCounters::Began(const std::string& name, Clock::time_point now) {
  ++pending_;
  if (IsMonitored(name)) throughput_.Begin(now);
}

OperationCounters::OfName* OperationCounters::Of(const std::string& name) {
  MutexLock lock(&mu_);
  std::unique_ptr<OfName>& of_name = by_name_[name];
  if (!of_name) of_name.reset(new OfName{name, IsMonitored(name)});
  return of_name.get();
}

void OperationCounters::Ended(OfName* of_name, bool ok, Clock::time_point began, uint64_t bytes, int strategy) {
  const bool was_called = began != Clock::time_point{};
  const Clock::time_point now = was_called ? Clock::now() : began;
  if (was_called) --pending_;
  if (was_called && of_name->is_monitored) throughput_.End(now, strategy, ok ? bytes : 0);
  if (was_called && ok) {
    bytes_ += bytes;
    latencies_.Add(Seconds(now - began).count());
  }
  ++(ok ? completed_ : failed_);
  if (ok) ++of_name->completed;
  if (!records_ || !was_called) return;
  MutexLock lock(&mu_);
  if (timeline_) timeline_->Add(of_name->name, began, now, bytes, ok);
}

std::unique_ptr<Timeline> OperationCounters::Record(std::unique_ptr<Timeline> timeline) {
  MutexLock lock(&mu_);
  records_ = timeline != nullptr;
  return std::exchange(timeline_, std::move(timeline));
}

uint64_t OperationCounters::completed(const std::string& name) const {
  MutexLock lock(&mu_);
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? 0 : it->second->completed.load();
}

}  // namespace kungfu
