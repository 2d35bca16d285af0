#include "ops/transport/lookout.h"

#include <sched.h>

#include <atomic>
#include <thread>

#include "ops/base/deadline.h"
#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

constexpr Seconds kLongest{60};

cpu_set_t Cores() {
  cpu_set_t cores;
  EXPECT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  return cores;
}

void RunOn(const cpu_set_t& cores) { EXPECT_EQ(sched_setaffinity(0, sizeof(cores), &cores), 0); }

cpu_set_t Only(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  return cores;
}

// While it lives, a thread wants this core and does nothing with it.
class Rival {
 public:
  explicit Rival(int core) : thread_([=] { Want(core); }) {}
  ~Rival() {
    over_ = true;
    thread_.join();
  }

 private:
  void Want(int core) {
    RunOn(Only(core));
    while (!over_) sched_yield();
  }

  std::atomic<bool> over_{false};
  std::thread thread_;
};

// In a thread of its own, which may run on all cores afterwards as before.
void ExpectToLeave(bool expected, const cpu_set_t& cores, int core) {
  std::thread([&] {
    bool left = false;
    for (const Deadline end = After(kLongest); left != expected && Clock::now() < end;) {
      RunOn(Only(core));
      RunOn(cores);
      Lookout lookout;
      for (int i = 0; i < 100 && sched_getcpu() == core; ++i) {
        lookout.GiveWay();
        lookout.Found();
      }
      left = sched_getcpu() != core;
      const cpu_set_t now = Cores();
      EXPECT_TRUE(CPU_EQUAL(&now, &cores));
      if (!expected) break;
    }
    EXPECT_EQ(left, expected);
  }).join();
}

KF_TEST(Lookout, WhoSharesItsCoreGoesToAnotherOne) {
  const cpu_set_t cores = Cores();
  const int core = sched_getcpu();
  const Rival rival(core);
  ExpectToLeave(CPU_COUNT(&cores) > 1, cores, core);
}

KF_TEST(Lookout, WhoMayRunOnOneCoreOnlyStaysThere) {
  const int core = sched_getcpu();
  const Rival rival(core);
  ExpectToLeave(false, Only(core), core);
}

}  // namespace
}  // namespace kungfu
