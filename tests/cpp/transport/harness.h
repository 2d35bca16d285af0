// What the tests of the transport layer share: waiting for another thread, with a deadline.

#pragma once

#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "ops/base/deadline.h"
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
    const std::lock_guard<std::mutex> lock(mu_);
    change(value_);
    changed_.notify_all();
  }
  T Get() const {
    const std::lock_guard<std::mutex> lock(mu_);
    return value_;
  }
  // Whether `condition` came true in time.
  template <typename Condition>
  [[nodiscard]] bool Await(const Condition& condition) const {
    std::unique_lock<std::mutex> lock(mu_);
    return changed_.wait_for(lock, kPatience, [&] { return condition(value_); });
  }

 private:
  mutable std::mutex mu_;
  mutable std::condition_variable changed_;
  T value_;  // guarded by mu_
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
