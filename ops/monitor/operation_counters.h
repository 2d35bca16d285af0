// How many operations have ended, and how. Anybody may count, from any thread.

#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "ops/base/mutex.h"

namespace kungfu {

class OperationCounters {
 public:
  void Completed(const std::string& name) EXCLUDES(mu_);
  void Failed() EXCLUDES(mu_);
  // One was moved in memory of the host's peers, without copies.
  void MovedDirectly() { ++direct_; }

  uint64_t completed() const EXCLUDES(mu_);
  uint64_t failed() const EXCLUDES(mu_);
  uint64_t direct() const { return direct_; }
  // Completed under this name.
  uint64_t completed(const std::string& name) const EXCLUDES(mu_);

 private:
  mutable Mutex mu_;
  uint64_t completed_ GUARDED_BY(mu_) = 0;
  uint64_t failed_ GUARDED_BY(mu_) = 0;
  std::atomic<uint64_t> direct_{0};
  std::unordered_map<std::string, uint64_t> by_name_ GUARDED_BY(mu_);
};

}  // namespace kungfu
