#include "ops/monitor/operation_counters.h"

namespace kungfu {

void OperationCounters::Completed(const std::string& name) {
  MutexLock lock(&mu_);
  ++completed_;
  ++by_name_[name];
}

void OperationCounters::Failed() {
  MutexLock lock(&mu_);
  ++failed_;
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
