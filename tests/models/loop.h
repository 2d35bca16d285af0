// ops/transport/event_loop.h: a thread that posts to a loop, and the loop that goes to sleep.

#pragma once

#include "tests/models/model.h"

namespace kungfu::models {

enum class LoopFault { kNone, kPosterLooksTooEarly, kLoopLooksTooEarly };

template <LoopFault kFault>
class Loop : public rl::test_suite<Loop<kFault>, 2> {
 public:
  void before() {
    for (auto* word : {&any_posted_, &asleep_}) word->store(0, rl::mo_relaxed, $);
    loop_.Begin();
  }
  void after() { loop_.End(); }
  void thread(unsigned number) { number == 0 ? Post() : Run(); }

 private:
  static constexpr rl::memory_order Unless(LoopFault fault) {
    return kFault == fault ? rl::mo_relaxed : rl::mo_seq_cst;
  }
  void Post() {
    any_posted_.store(1, Unless(LoopFault::kPosterLooksTooEarly), $);
    if (asleep_.load(rl::mo_seq_cst, $) && asleep_.exchange(0, rl::mo_seq_cst, $)) loop_.Call();
  }
  // PrepareToSleep, until there is something to take
  void Run() {
    while (!any_posted_.load(rl::mo_acquire, $)) {
      asleep_.store(1, Unless(LoopFault::kLoopLooksTooEarly), $);
      if (!any_posted_.load(rl::mo_seq_cst, $)) loop_.AwaitCall();
      asleep_.store(0, rl::mo_relaxed, $);
    }
  }

  rl::atomic<unsigned> any_posted_, asleep_;
  Sleeper loop_;
};

}  // namespace kungfu::models
