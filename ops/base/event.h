// Something that happens once, and one thread that waits for it. It costs a system call only where that thread sleeps.

#pragma once

#include <atomic>
#include <cstdint>

#include "ops/base/deadline.h"

namespace kungfu {

class Event {
 public:
  // Once, from any thread. The thread that waits sees all that was written before, and may destroy the event at once.
  void Happen();
  bool happened() const { return state_.load(std::memory_order_acquire) == kHappened; }
  // Returns whether it has happened, at the latest at `deadline`. One thread, again if it has not.
  bool AwaitUntil(Deadline deadline);

 private:
  enum State : uint32_t { kPending, kAwaited, kHappened };

  std::atomic<uint32_t> state_{kPending};
};

}  // namespace kungfu
