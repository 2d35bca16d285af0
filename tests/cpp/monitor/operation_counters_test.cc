#include "ops/monitor/operation_counters.h"

#include <thread>
#include <vector>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

KF_TEST(OperationCounters, TellsNamesAndOutcomesApart) {
  OperationCounters counters;
  counters.Ended(counters.Of("a"), true, {}, 0, 0);
  counters.Ended(counters.Of("b"), true, {}, 0, 0);
  counters.Ended(counters.Of("a"), true, {}, 0, 0);
  counters.Ended(counters.Of("c"), false, {}, 0, 0);
  EXPECT_EQ(counters.completed(), 3u);
  EXPECT_EQ(counters.completed("a"), 2u);
  EXPECT_EQ(counters.completed("b"), 1u);
  EXPECT_EQ(counters.completed("c"), 0u);
  EXPECT_EQ(counters.failed(), 1u);
}

KF_TEST(OperationCounters, CountsFromManyThreads) {
  constexpr int kThreads = 4, kTimes = 1000;
  OperationCounters counters;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, name = std::to_string(t)] {
      for (int i = 0; i < kTimes; ++i) {
        counters.Ended(counters.Of(name), true, {}, 0, 0);
        counters.Ended(counters.Of(name), false, {}, 0, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters.completed(), uint64_t{kThreads * kTimes});
  EXPECT_EQ(counters.failed(), uint64_t{kThreads * kTimes});
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(counters.completed(std::to_string(t)), uint64_t{kTimes});
}

KF_TEST(OperationCounters, TimesWhatWasCalledAndSucceeded) {
  OperationCounters counters;
  const Clock::time_point began = Clock::now() - std::chrono::milliseconds(5);
  for (const char* name : {"a", "monitored/a"}) {
    counters.Began(name, began);
    counters.Ended(counters.Of(name), true, began, 100, 3);
  }
  counters.Began("monitored/b", began);
  counters.Ended(counters.Of("monitored/b"), false, began, 1000, 3);
  counters.Ended(counters.Of("kungfu/session"), true, {}, 24, 3);
  EXPECT_EQ(counters.bytes(), 200u);
  EXPECT_GE(counters.latencies().seconds(), 0.01);
  EXPECT_EQ(counters.throughput().Of(3).total.bytes, 100u);
}

}  // namespace
}  // namespace kungfu
