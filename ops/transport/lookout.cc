#include "ops/transport/lookout.h"

#include <sched.h>

namespace kungfu {
namespace {

// A call of the system that changes no thread takes less.
constexpr Seconds kOtherThread{2e-6};
// A process that waits for this thread's next action gives the core back before that.
constexpr Seconds kMoment{500e-6};
// The cost of moving to another core is small compared with that.
constexpr Seconds kStay{0.005};

// For one that is idle, if there is one. Afterwards the thread may run where it could before.
void GoToAnotherCore() {
  cpu_set_t cores, others;
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return;
  others = cores;
  CPU_CLR(sched_getcpu(), &others);
  if (CPU_COUNT(&others) == 0) return;
  if (sched_setaffinity(0, sizeof(others), &others) == 0) sched_setaffinity(0, sizeof(cores), &cores);
}

}  // namespace

void Lookout::GiveWay() {
  const Deadline before = Clock::now();
  sched_yield();
  const Seconds away = Clock::now() - before;
  gave_way_ = away > kOtherThread && away < kMoment;
}

void Lookout::Found() {
  if (!gave_way_) return;
  gave_way_ = false;
  if (stays_until_.has_value() && Clock::now() < *stays_until_) return;
  GoToAnotherCore();
  stays_until_ = After(kStay);
}

}  // namespace kungfu
