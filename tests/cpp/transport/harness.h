// What the tests of the transport layer share: waiting for another thread, with a deadline.

#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "ops/base/deadline.h"
#include "ops/base/mutex.h"
#include "ops/transport/event_loop.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {

// Generous: only a test that fails ever waits so long, and two gibibytes take a minute under a sanitizer on a busy
// machine.
inline constexpr Seconds kPatience{240};

// A value that one thread changes and another waits for.
template <typename T>
class Guarded {
 public:
  explicit Guarded(T value) : value_(std::move(value)) {}

  void Set(T value) {
    Update([&](T& current) { current = std::move(value); });
  }
  template <typename Change>
  void Update(const Change& change) {
    MutexLock lock(&mu_);
    change(value_);
    changed_.NotifyAll();
  }
  T Get() const {
    MutexLock lock(&mu_);
    return value_;
  }
  // Whether `condition` came true in time.
  template <typename Condition>
  [[nodiscard]] bool Await(const Condition& condition) const {
    const Deadline deadline = After(kPatience);
    MutexLock lock(&mu_);
    while (!condition(value_)) {
      if (Clock::now() >= deadline) return false;
      changed_.WaitUntil(&mu_, deadline);
    }
    return true;
  }

 private:
  mutable Mutex mu_;
  mutable CondVar changed_;
  T value_ GUARDED_BY(mu_);
};

inline std::unique_ptr<EventLoop> NewLoop() {
  StatusOr<std::unique_ptr<EventLoop>> loop = EventLoop::Start();
  EXPECT_OK(loop.status());
  if (!loop.ok()) std::abort();  // no test can do without
  return std::move(*loop);
}

// Runs `body` on the loop and waits for its end.
inline void RunOnLoop(EventLoop* loop, const std::function<void()>& body) {
  Guarded<bool> done(false);
  const bool accepted = loop->Post([&] {
    body();
    done.Set(true);
  });
  EXPECT_TRUE(accepted);
  if (accepted && !done.Await([](bool value) { return value; })) {
    Fail(__FILE__, __LINE__, "the event loop is stuck");
    std::abort();  // what `body` refers to is about to vanish
  }
}

}  // namespace kungfu::testing
