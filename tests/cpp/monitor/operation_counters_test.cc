#include "ops/monitor/operation_counters.h"

#include <thread>
#include <vector>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

KF_TEST(OperationCounters, TellsNamesAndOutcomesApart) {
  OperationCounters counters;
  counters.Completed("a");
  counters.Completed("b");
  counters.Completed("a");
  counters.Failed();
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
        counters.Completed(name);
        counters.Failed();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters.completed(), uint64_t{kThreads * kTimes});
  EXPECT_EQ(counters.failed(), uint64_t{kThreads * kTimes});
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(counters.completed(std::to_string(t)), uint64_t{kTimes});
}

}  // namespace
}  // namespace kungfu
