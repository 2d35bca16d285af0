// How many operations have ended, how, and how long they took. Anybody may count, from any thread.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "ops/base/deadline.h"
#include "ops/base/mutex.h"
#include "ops/monitor/latency_histogram.h"
#include "ops/monitor/throughput_meter.h"
#include "ops/monitor/timeline.h"

namespace kungfu {

// The beginning of the names of operations that count for the throughput.
inline constexpr char kMonitored[] = "monitored/";

class OperationCounters {
 public:
  // The count of one name.
  struct OfName {
    const std::string name;
    const bool is_monitored;
    std::atomic<uint64_t> completed{0};
  };
  // It stays as long as the counters: who keeps it looks for the name once, and waits for nobody.
  OfName* Of(const std::string& name) EXCLUDES(mu_);

  // An operation was called; Ended will follow.
  void Began(const std::string& name, Clock::time_point now);
  // It is over, with success or not; it had `bytes`. `began` is the time of Began, or nothing for an operation without
  // a caller. `strategy`: which one its throughput counts for.
  void Ended(OfName* of_name, bool ok, Clock::time_point began, uint64_t bytes, int strategy) EXCLUDES(mu_);
  // One was moved in memory of the host's peers, without copies.
  void MovedDirectly() { ++direct_; }
  // From now on `timeline` gets what was called and ends; null: nothing does. Returns the one before.
  std::unique_ptr<Timeline> Record(std::unique_ptr<Timeline> timeline) EXCLUDES(mu_);

  // Called, and not over.
  uint64_t pending() const { return pending_; }
  uint64_t completed() const { return completed_; }
  uint64_t failed() const { return failed_; }
  uint64_t direct() const { return direct_; }
  // Completed under this name.
  uint64_t completed(const std::string& name) const EXCLUDES(mu_);
  uint64_t bytes() const { return bytes_; }
  const LatencyHistogram& latencies() const { return latencies_; }
  ThroughputMeter& throughput() { return throughput_; }

 private:
  std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> pending_{0};
  std::atomic<uint64_t> direct_{0};
  std::atomic<uint64_t> bytes_{0};
  LatencyHistogram latencies_;
  ThroughputMeter throughput_;
  std::atomic<bool> records_{false};  // whether there is a timeline
  mutable Mutex mu_;
  std::unordered_map<std::string, std::unique_ptr<OfName>> by_name_ GUARDED_BY(mu_);
  std::unique_ptr<Timeline> timeline_ GUARDED_BY(mu_);
};

}  // namespace kungfu
