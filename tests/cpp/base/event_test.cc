#include "ops/base/event.h"

#include <atomic>
#include <string>
#include <thread>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

// Longer than any test runs: if nobody wakes the thread, the test does not end.
constexpr Seconds kForEver{1e6};

KF_TEST(Event, IsAwaitedUntilItHasHappened) {
  Event event;
  EXPECT_TRUE(!event.happened());
  EXPECT_TRUE(!event.AwaitUntil(Clock::now()));
  EXPECT_TRUE(!event.AwaitUntil(After(Seconds(0.001))));
  event.Happen();
  EXPECT_TRUE(event.happened());
  EXPECT_TRUE(event.AwaitUntil(Clock::now()));
}

KF_TEST(Event, WakesTheThreadThatWaits) {
  Event event;
  std::string text;
  std::thread other([&] {
    text = "written before";
    event.Happen();
  });
  EXPECT_TRUE(event.AwaitUntil(After(kForEver)));
  EXPECT_EQ(text, "written before");
  other.join();
}

// Each is gone as soon as it is known to have happened. The other thread is now ahead, and now behind.
KF_TEST(Event, MayBeDestroyedOnceItHasHappened) {
  constexpr int kEvents = 1000;
  std::atomic<Event*> next{nullptr};
  std::thread other([&] {
    for (int i = 0; i < kEvents; ++i) {
      Event* event = nullptr;
      while ((event = next.exchange(nullptr)) == nullptr) std::this_thread::yield();
      event->Happen();
    }
  });
  for (int i = 0; i < kEvents; ++i) {
    Event event;
    next = &event;
    if (i % 2 == 0) std::this_thread::yield();
    EXPECT_TRUE(event.AwaitUntil(After(kForEver)));
  }
  other.join();
}

}  // namespace
}  // namespace kungfu
