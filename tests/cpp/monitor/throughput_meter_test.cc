#include "ops/monitor/throughput_meter.h"

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

Clock::time_point AtSecond(int64_t seconds) { return Clock::time_point{} + std::chrono::seconds(seconds); }

KF_TEST(ThroughputMeter, OverlappingOperationsShareTheTime) {
  ThroughputMeter meter;
  meter.Begin(AtSecond(10));
  meter.Begin(AtSecond(11));
  meter.End(AtSecond(12), 1, 600);
  meter.End(AtSecond(13), 1, 600);
  meter.Begin(AtSecond(100));
  meter.End(AtSecond(101), 1, 400);
  EXPECT_EQ(meter.Of(1).total.bytes, 1600u);
  EXPECT_EQ(meter.Of(1).total.seconds, 4.0);
}

KF_TEST(ThroughputMeter, KeysAndWindows) {
  ThroughputMeter meter;
  const auto move = [&](int64_t from, int64_t to, int key, uint64_t bytes) {
    meter.Begin(AtSecond(from));
    meter.End(AtSecond(to), key, bytes);
  };
  move(0, 1, 1, 100);
  EXPECT_EQ(meter.Of(1).newest, 0.0);
  meter.EndWindow();
  move(2, 4, 1, 100);
  move(4, 5, 2, 700);
  move(5, 9, 2, 0);  // failed
  meter.EndWindow();
  meter.EndWindow();
  EXPECT_EQ(meter.Of(1).newest, 50.0);
  EXPECT_EQ(meter.Of(1).best, 100.0);
  EXPECT_EQ(meter.Of(2).newest, 700.0);
  EXPECT_EQ(meter.Of(3).total.bytes, 0u);
}

KF_TEST(ThroughputMeter, ForgetsAllButTheTotals) {
  ThroughputMeter meter;
  const auto move = [&](int64_t from, int64_t to, int key, uint64_t bytes) {
    meter.Begin(AtSecond(from));
    meter.End(AtSecond(to), key, bytes);
  };
  for (const int key : {1, 2}) move(key, key + 1, key, 100);
  meter.EndWindow();
  for (const int key : {1, 2}) move(key + 2, key + 3, key, 900);
  meter.Forget(1);
  meter.Forget(3);
  meter.EndWindow();
  EXPECT_EQ(meter.Of(1).best, 0.0);
  EXPECT_EQ(meter.Of(1).newest, 0.0);
  EXPECT_EQ(meter.Of(1).total.bytes, 1000u);
  EXPECT_EQ(meter.Of(2).best, 900.0);
  meter.Forget();
  EXPECT_EQ(meter.Of(2).best, 0.0);
  EXPECT_EQ(meter.Of(2).total.seconds, 2.0);
}

}  // namespace
}  // namespace kungfu
