#include "ops/base/event.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>

namespace kungfu {
namespace {

// The system reads a word of this size.
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

// May return early. The steady clock counts.
void SleepWhile(std::atomic<uint32_t>* word, uint32_t value, Deadline deadline) {
  const auto since_boot = deadline.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
  const std::chrono::nanoseconds rest = since_boot - seconds;
  const timespec until{static_cast<time_t>(seconds.count()), static_cast<long>(rest.count())};
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

// Only the address counts: the word may be gone.
void WakeSleeper(const void* word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

}  // namespace

// Release, for what was written before; it pairs with the acquire of happened(). That someone awaits it and that it has
// happened are changes of one word, of which each side sees the other's: no order of two words is needed.
void Event::Happen() {
  const void* const word = &state_;
  if (state_.exchange(kHappened, std::memory_order_acq_rel) == kAwaited) WakeSleeper(word);
}

bool Event::AwaitUntil(Deadline deadline) {
  uint32_t expected = kPending;
  state_.compare_exchange_strong(expected, kAwaited, std::memory_order_acq_rel);
  while (!happened()) {
    if (Clock::now() >= deadline) return false;
    SleepWhile(&state_, kAwaited, deadline);
  }
  return true;
}

}  // namespace kungfu
