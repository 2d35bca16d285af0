// How many bytes operations move per second while there are any, for each of a few keys. Operations that overlap share
// the time. Anybody may use it, from any thread.

#pragma once

#include <cstdint>
#include <map>

#include "ops/base/deadline.h"
#include "ops/base/mutex.h"

namespace kungfu {

class ThroughputMeter {
 public:
  // Bytes and the seconds in which there was an operation.
  struct Amount {
    uint64_t bytes = 0;
    double seconds = 0;

    double rate() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
  };
  struct Throughput {
    Amount total;
    double newest = 0;  // bytes per second in the last window that had operations
    double best = 0;    // of all windows
  };

  // An operation begins / ends, having moved `bytes` under `key`; one that failed has moved none.
  void Begin(Clock::time_point now) EXCLUDES(mu_);
  void End(Clock::time_point now, int key, uint64_t bytes) EXCLUDES(mu_);

  // Ends the window, which began with the last call, for all keys.
  void EndWindow() EXCLUDES(mu_);
  // Keeps only the totals, of one key or of all: the measured windows are no measure any more.
  void Forget(int key) EXCLUDES(mu_);
  void Forget() EXCLUDES(mu_);
  Throughput Of(int key) const EXCLUDES(mu_);

 private:
  struct Entry {
    Throughput result;
    Amount window;

    void Forget() { *this = {{result.total}, {}}; }
  };

  mutable Mutex mu_;
  int running_ GUARDED_BY(mu_) = 0;
  Clock::time_point since_ GUARDED_BY(mu_){};  // the time up to here is accounted for
  std::map<int, Entry> entries_ GUARDED_BY(mu_);
};

}  // namespace kungfu
